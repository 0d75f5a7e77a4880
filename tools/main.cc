#include "tools/schedule_tool.h"

int main(int argc, char** argv) { return weft::schedule_tool(argc, argv, weft::catalog()); }
