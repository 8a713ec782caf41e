/* tests/ascend/rights/program.c: makes weir read its environment, and prints 1 if the process runs with another
 * user's rights. rights.sh makes a set-uid program of it. */
#include <stdio.h>
#include <sys/auxv.h>
#include <weir/heap.h>
#include <weir/mstx.h>
#include <weir/topology.h>

int main(void)
{
    weir_heap_config config = WEIR_HEAP_CONFIG_INIT;
    weir_heap *heap = NULL;
    weir_topology *topology = NULL;
    (void)printf("secure %lu\n", getauxval(AT_SECURE));
    (void)printf("tool %d\n", weir_mstx_has_tool());
    if (weir_topology_create(NULL, &topology) != WEIR_OK || weir_heap_create(&config, &heap) != WEIR_OK) {
        return 1;
    }
    weir_topology_destroy(topology);
    return weir_heap_destroy(heap) == WEIR_OK ? 0 : 1;
}
