/* one_function.c: a driver library that lacks almost everything. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);

__attribute__((visibility("default"))) int cuInit(unsigned flags)
{
    return (int)flags;
}

__attribute__((visibility("default"))) int cuDriverGetVersion(int *version)
{
    *version = 12040;
    return 0;
}
