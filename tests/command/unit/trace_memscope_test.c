/* trace_memscope_test.c: the CSV of msMemScope and msLeaks. */
#include "foreign_text.h"

#define OLD_COLUMNS "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr\n"
#define COLUMNS                                                                                                        \
    "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr,Call Stack(Python),Call Stack(C)\n"
#define HEAD "#src msMemScope\n#clock ns\n"
#define POOLS "#note blocks of the framework's pools; the file names no streams: each device has one here\n"
#define DRIVER                                                                                                         \
    "#note memory of the driver (HAL); the file has no events of a framework's pool; the file names no streams: each " \
    "device has one here\n"

/* Rows out of order of time, decimal and hexadecimal addresses, marks, owners, a stack. */
TEST(test_pools)
{
    becomes(
        COLUMNS
        "1,SYSTEM,START_TRACE,N/A,1000,11,11,N/A,N/A,,,\n"
        "4,MALLOC,PTA,N/A,1300,11,12,0,0x0000000000003039,\"{allocation_id:2,addr:0x3039,size:512,owner:PTA@ops@aten,"
        "total:2097152,used:1024}\",,\n"
        "3,MALLOC,PTA,N/A,1200,11,11,0,8192,\"{allocation_id:1,addr:8192,size:512,owner:,total:2097152,used:512}\","
        "\"train.py(10): step\nmain.py(3): main\n\",\n"
        "2,OP_LAUNCH,ATEN_START,torch._ops.aten.t.default,1100,11,11,0,N/A,,,\n"
        "5,OP_LAUNCH,ATEN_END,torch._ops.aten.t.default,1350,11,11,0,N/A,,,\n"
        "6,MSTX,Mark,\"step, 1 \",1360,11,11,0,N/A,,,\n"
        "7,KERNEL_LAUNCH,KERNEL_LAUNCH,N/A,1370,11,11,0,N/A,\"{streamId:2,taskId:7}\",,\n"
        "8,FREE,PTA,N/A,1400,11,11,0,12345,\"{allocation_id:2,addr:12345,size:512,total:2097152,used:512}\",,\n"
        "9,FREE,PTA,N/A,1500,11,11,0,8192,\"{allocation_id:1,addr:8192,size:512,total:4194304,used:0}\",,\n",
        HEAD POOLS "#note 1 events of other kinds (kernels, accesses) are left out\n"
                   "m 0 I START_TRACE\n"
                   "m 100 B torch._ops.aten.t.default\n"
                   "@1 train.py(10): step\n"
                   "a 200 0 512 0 1 addr=0x2000 @1\n"
                   "v 200 2097152 512\n"
                   "@0 PTA@ops@aten\n"
                   "a 300 1 512 0 0 addr=0x3039 @0\n"
                   "m 350 E torch._ops.aten.t.default\n"
                   "m 360 I step, 1\n"
                   "f 400 1 0 1\n"
                   "f 500 0 0 1\n"
                   "v 500 4194304 0\n");
}

/* If the file has pools, the import leaves out the driver's events. Pools other than the framework's become private
 * pools. */
TEST(test_several_pools)
{
    becomes(OLD_COLUMNS "1,MALLOC,HAL,N/A,10,1,1,0,4096,\"{addr:4096,size:2097152,owner:,MID:7}\"\n"
                        "2,MALLOC,PTA,N/A,20,1,1,0,4096,\"{addr:4096,size:512}\"\n"
                        "3,MALLOC,ATB,N/A,30,1,1,0,4096,{size:1024}\n"
                        "4,MALLOC,PTA_WORKSPACE,N/A,40,1,1,0,4096,size:2048\n"
                        "5,MALLOC,HOST,N/A,50,1,1,host,4096,{size:9}\n"
                        "6,FREE,ATB,N/A,60,1,1,0,4096,{size:1024}\n",
            HEAD POOLS "#note 1 events of the driver (HAL) are left out: they do not tell which are the pool's\n"
                       "#note 1 events of host memory or of unknown kinds of memory are left out\n"
                       "a 0 0 512 0 0 addr=0x1000\n"
                       "a 10 1 1024 0 0 pool=0 addr=0x1000\n"
                       "a 20 2 2048 0 0 pool=1 addr=0x1000\n"
                       "f 40 1 0 0\n");
}

/* The file has the driver's events alone. A free names neither the device nor the size. The import
 * gives it no stream: the host must have waited for the work on the block. */
TEST(test_driver)
{
    becomes(OLD_COLUMNS "1,MALLOC,HAL,N/A,10,1,1,2,4096,\"{addr:4096,size:2097152,owner:,MID:7}\"\n"
                        "2,FREE,HAL,N/A,20,1,1,N/A,4096,\"{addr:4096,size:480,owner:,MID:-1}\"\n"
                        "3,FREE,HAL,N/A,30,1,1,N/A,4096,\"{addr:4096,size:480,owner:,MID:-1}\"\n"
                        "4,FREE,HAL,N/A,40,1,1,N/A,8192,\"{addr:8192,size:480,owner:,MID:-1}\"\n",
            HEAD DRIVER "#note 2 frees of blocks that are not live are left out\n"
                        "a 0 0 2097152 0 0 d=2 addr=0x1000\n"
                        "f 10 0 - 0\n");
}

/* Two processes use the same address for different blocks; one free has no allocation in the file; one address is
 * allocated twice. */
TEST(test_contradictions)
{
    becomes(OLD_COLUMNS "1,MALLOC,PTA,N/A,10,1,1,0,4096,\"{size:512,total:1,used:1}\"\n"
                        "1,MALLOC,PTA,N/A,11,2,2,1,4096,\"{size:1024,total:1,used:1}\"\n"
                        "2,MALLOC,PTA,N/A,12,1,1,0,4096,\"{size:256,total:1,used:1}\"\n"
                        "2,FREE,PTA,N/A,13,2,2,1,4096,{size:1024}\n"
                        "3,FREE,PTA,N/A,14,2,2,1,8192,{size:64}\n",
            HEAD POOLS "#note the events are of 2 processes\n"
                       "#note 1 frees are of blocks from before the record; these are live at its start\n"
                       "#note 1 blocks begin at the address of a live block; the missing free is added\n"
                       "p 0 64 1 0x2000 d=1\n"
                       "a 0 1 512 0 0 addr=0x1000\n"
                       "a 1 2 1024 1 1 d=1 addr=0x1000\n"
                       "f 2 1 0 0\n"
                       "a 2 3 256 0 0 addr=0x1000\n"
                       "f 3 2 1 1\n"
                       "f 4 0 1 1\n");
}

TEST(test_times)
{
    becomes("ID,Event,Event Type,Name,Timestamp(us),Process Id,Thread Id,Device Id,Ptr,Attr\n"
            "1,MALLOC,PTA,N/A,10,1,1,0,4096,{size:512}\n2,FREE,PTA,N/A,12,1,1,0,4096,{size:512}\n",
            HEAD POOLS "a 0 0 512 0 0 addr=0x1000\nf 2000 0 0 0\n");
    becomes(OLD_COLUMNS "1,MALLOC,PTA,N/A,1746006014162153,1,1,0,4096,{size:512}\n"
                        "2,FREE,PTA,N/A,1746006014162155,1,1,0,4096,{size:512}\n",
            HEAD POOLS "#note times are microseconds, although the column says nanoseconds\n"
                       "a 0 0 512 0 0 addr=0x1000\nf 2000 0 0 0\n");
}

TEST(test_refused)
{
    static const char *const cases[][2] = {
        {"1,MALLOC,PTA,N/A,10,1,1,0,N/A,{size:1}", "t.csv:2: field 9 (Ptr): expected an address, got \"N/A\""},
        {"1,MALLOC,PTA,N/A,10,1,1,0,0x,{size:1}", "t.csv:2: field 9 (Ptr): expected an address, got \"0x\""},
        {"1,MALLOC,PTA,N/A,10,1,1,0,18446744073709551616,{size:1}",
         "t.csv:2: field 9 (Ptr): expected an address, got \"18446744073709551616\""},
        {"1,MALLOC,PTA,N/A,10,1,1,0,1,", "t.csv:2: field 10 (Attr): expected size: and a number of bytes, got \"\""},
        {"1,MALLOC,PTA,N/A,10,1,1,0,1,{size:-5}",
         "t.csv:2: field 10 (Attr): expected size: and a number of bytes, got \"{size:-5}\""},
        {"1,MALLOC,PTA,N/A,10,1,1,0,1,{resize:5}",
         "t.csv:2: field 10 (Attr): expected size: and a number of bytes, got \"{resize:5}\""},
        {"1,MALLOC,PTA,N/A,10,1,1,0,1,{size:}",
         "t.csv:2: field 10 (Attr): expected size: and a number of bytes, got \"{size:}\""},
        {"1,MALLOC,PTA,N/A,10,1,1,d0,1,{size:5}",
         "t.csv:2: field 8 (Device Id): expected a device number below 4096, as in NPU:0, got \"d0\""},
        {"1,MALLOC,PTA,N/A,-1,1,1,0,1,{size:5}", "t.csv:2: field 5 (Timestamp(ns)): expected a time, got \"-1\""},
        {"1,SYSTEM,acl init,N/A,N/A,1,1,N/A,N/A,", "t.csv:2: field 5 (Timestamp(ns)): expected a time, got \"N/A\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char header[] = OLD_COLUMNS;
        header[strlen(header) - 1] = 0;
        refused_lines(header, cases[i][0], cases[i][1]);
    }
}
