/* kernel.c: the vendor's compiled kernels. The simulated device cannot run them, and every function here returns that.
 *
 * With weir_ascendcl_launch (weir/ascendcl.h) a program runs a function of its own in place of a kernel.
 */
#include "runtime.h"

ACL_EXPORT aclError aclrtBinaryLoadFromFile(const char *binPath, aclrtBinaryLoadOptions *options,
                                            aclrtBinHandle *binHandle)
{
    ACL_ENTER(aclrtBinaryLoadFromFile);
    (void)binPath;
    (void)options;
    (void)binHandle;
    return acl__not_simulated(ACL_FN_aclrtBinaryLoadFromFile);
}

ACL_EXPORT aclError aclrtBinaryGetFunction(const aclrtBinHandle binHandle, const char *kernelName,
                                           aclrtFuncHandle *funcHandle)
{
    ACL_ENTER(aclrtBinaryGetFunction);
    (void)binHandle;
    (void)kernelName;
    (void)funcHandle;
    return acl__not_simulated(ACL_FN_aclrtBinaryGetFunction);
}

ACL_EXPORT aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle)
{
    ACL_ENTER(aclrtBinaryUnLoad);
    (void)binHandle;
    return acl__not_simulated(ACL_FN_aclrtBinaryUnLoad);
}

ACL_EXPORT aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle *argsHandle)
{
    ACL_ENTER(aclrtKernelArgsInit);
    (void)funcHandle;
    (void)argsHandle;
    return acl__not_simulated(ACL_FN_aclrtKernelArgsInit);
}

ACL_EXPORT aclError aclrtKernelArgsAppend(aclrtArgsHandle argsHandle, void *param, size_t paramSize,
                                          aclrtParamHandle *paramHandle)
{
    ACL_ENTER(aclrtKernelArgsAppend);
    (void)argsHandle;
    (void)param;
    (void)paramSize;
    (void)paramHandle;
    return acl__not_simulated(ACL_FN_aclrtKernelArgsAppend);
}

ACL_EXPORT aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle)
{
    ACL_ENTER(aclrtKernelArgsFinalize);
    (void)argsHandle;
    return acl__not_simulated(ACL_FN_aclrtKernelArgsFinalize);
}

ACL_EXPORT aclError aclrtLaunchKernelWithConfig(aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream,
                                                aclrtLaunchKernelCfg *cfg, aclrtArgsHandle argsHandle, void *reserve)
{
    ACL_ENTER(aclrtLaunchKernelWithConfig);
    (void)funcHandle;
    (void)numBlocks;
    (void)stream;
    (void)cfg;
    (void)argsHandle;
    (void)reserve;
    return acl__not_simulated(ACL_FN_aclrtLaunchKernelWithConfig);
}
