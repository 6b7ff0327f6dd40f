// atoll: the program.  All of it is in commands.cpp.
#include "app/commands.h"

int main(int argc, char** argv) { return atl::run_command(argc, argv); }
