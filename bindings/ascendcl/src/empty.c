/* empty.c: the source of the libraries without functions of their own. */
typedef int empty;
