/* strategy/random.h: random programs. */
#ifndef WEIR_CONTRACT_STRATEGY_RANDOM_H
#define WEIR_CONTRACT_STRATEGY_RANDOM_H

#include "calls.h"

/* --- random programs --- */

/* xorshift64*: the same numbers on every machine. */
struct random {
    uint64_t state;
};

static uint64_t draw(struct random *random)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * UINT64_C(0x2545f4914f6cdd1d);
}

static uint64_t below(struct random *random, uint64_t limit)
{
    return (draw(random) >> 16) % limit;
}

static bool chance(struct random *random, unsigned percent)
{
    return below(random, 100) < percent;
}

/* The choices of a program, fixed by its seed. */
struct program {
    struct random random;
    weir_lane lanes;  /* streams in use, 1 to 4 */
    unsigned large;   /* percent of requests above the small size */
    unsigned aligned; /* percent of requests with an alignment */
    uint64_t most;    /* largest small request, in granules */
    uint64_t *log;    /* region index and offset of each alloc */
    size_t log_count;
};

static void keep_in_log(struct program *program, uint64_t value)
{
    if (program->log != NULL && program->log_count < 2 * PROGRAM_STEPS) {
        program->log[program->log_count++] = value;
    }
}

static weir_lane draw_lane(struct program *program)
{
    return chance(&program->random, 10) ? WEIR_LANE_OPEN : (weir_lane)(1 + below(&program->random, program->lanes));
}

/* Returns a tick for a free: usually the lane's latest tick, sometimes an earlier one, as rule 5 allows. */
static weir_tick draw_tick(struct program *program, const struct rig *rig, weir_lane lane)
{
    const weir_tick now = tick_now(rig, lane);
    return chance(&program->random, 20) ? below(&program->random, now + 1) : now;
}

static uint64_t draw_size(struct program *program, const struct rig *rig)
{
    uint64_t granule = rig->ops->granule_bytes;
    if (chance(&program->random, program->large)) {
        uint64_t size = (UINT64_C(1) << 20) + granule * (1 + below(&program->random, 4000));
        return size - below(&program->random, 2);
    }
    uint64_t size = granule * (1 + below(&program->random, program->most));
    return tested->whole_regions || chance(&program->random, 50) ? size : size - below(&program->random, granule);
}

static uint64_t draw_align(struct program *program, const struct rig *rig)
{
    return chance(&program->random, program->aligned) ? rig->ops->granule_bytes << below(&program->random, 5)
                                                      : UINT64_C(1) << below(&program->random, 10);
}

/* Draws a region, often tiny, so that all its edges are near. */
static void draw_region(struct program *program, struct rig *rig)
{
    uint64_t granule = rig->ops->granule_bytes;
    uint64_t hint = draw_size(program, rig);
    if (rig->one_kind) {
        const weir_lane lane = chance(&program->random, 70) ? WEIR_LANE_UNMAPPED : draw_lane(program);
        add_region(rig, round_up(hint, granule) + granule * below(&program->random, 64), 0, lane, granule, 0);
        return;
    }
    uint64_t size = round_up(hint, granule);
    if (!tested->whole_regions) {
        size += is_small(hint) ? granule * below(&program->random, 24) : below(&program->random, 9) << 19;
    }
    uint64_t gap = chance(&program->random, 60) ? 0 : granule * (1 + below(&program->random, 7));
    const weir_lane lane = draw_lane(program);
    add_region_at(rig, size, hint, lane, draw_tick(program, rig, lane), granule, gap);
}

static size_t alive_regions(const struct rig *rig)
{
    size_t count = 0;
    for (size_t i = 0; i < rig->region_count; i++) {
        count += rig->regions[i].alive ? 1 : 0;
    }
    return count;
}

static void step_alloc(struct program *program, struct rig *rig)
{
    weir_lane lane = draw_lane(program);
    weir_tick limit = WEIR_TICK_MAX;
    if (chance(&program->random, 25)) {
        limit = below(&program->random, rig->now[lane] + 2);
    }
    uint64_t size = draw_size(program, rig);
    uint64_t align = draw_align(program, rig);
    weir_range range;
    void *token = alloc(rig, lane, limit, size, align, &range);
    if (token == NULL && chance(&program->random, 3) && alive_regions(rig) < MOST_REGIONS) {
        token = grow(rig, lane, size, align, rig->ops->granule_bytes * below(&program->random, 3));
        keep_in_log(program, 1);
        return;
    }
    if (token == NULL) {
        keep_in_log(program, UINT64_MAX);
        return;
    }
    size_t region = rig->book.at[piece_with_token(rig, token)].region;
    keep_in_log(program, region);
    keep_in_log(program, range.address - rig->regions[region].address);
}

/* Returns the lane that a taken piece is freed into: any lane, or the one that its region's memory belongs to. */
static weir_lane lane_to_free_into(struct program *program, const struct rig *rig, const struct piece *piece)
{
    return private_lanes(rig) ? piece->lane : draw_lane(program);
}

static void step_free(struct program *program, struct rig *rig)
{
    size_t taken = (size_t)add_up(rig).taken_ranges;
    if (taken == 0) {
        return;
    }
    size_t pick = (size_t)below(&program->random, taken);
    for (size_t i = 0; i < rig->book.count; i++) {
        if (rig->book.at[i].taken && pick-- == 0) {
            weir_lane lane = lane_to_free_into(program, rig, &rig->book.at[i]);
            rig->now[lane] += lane == WEIR_LANE_OPEN ? 0 : below(&program->random, 3);
            free_token_at(rig, rig->book.at[i].token, lane, draw_tick(program, rig, lane));
            return;
        }
    }
}

static void draw_limits(struct program *program, const struct rig *rig, weir_tick *limits)
{
    limits[0] = WEIR_TICK_MAX;
    for (weir_lane lane = 1; lane < LANES; lane++) {
        limits[lane] = chance(&program->random, 30) ? WEIR_TICK_MAX : below(&program->random, rig->now[lane] + 2);
    }
}

static void step_remove(struct program *program, struct rig *rig)
{
    size_t alive = alive_regions(rig);
    if (alive == 0) {
        return;
    }
    size_t pick = (size_t)below(&program->random, alive);
    weir_tick limits[LANES];
    draw_limits(program, rig, limits);
    size_t lanes = chance(&program->random, 80) ? LANES : (size_t)below(&program->random, LANES + 1);
    for (size_t i = 0; i < rig->region_count; i++) {
        if (rig->regions[i].alive && pick-- == 0) {
            remove_region(rig, i, limits, lanes);
            return;
        }
    }
}

/* Gathers as a pool does: after the lane itself has refused, or as a last resort without trying the lane first. */
static void step_gather(struct program *program, struct rig *rig)
{
    if (rig->ops->gather == NULL) {
        return;
    }
    weir_tick limits[LANES];
    draw_limits(program, rig, limits);
    weir_lane lane = (weir_lane)below(&program->random, program->lanes + 1);
    limits[lane] = WEIR_TICK_MAX;
    size_t lanes = chance(&program->random, 80) ? LANES : (size_t)below(&program->random, LANES + 1);
    uint64_t size = draw_size(program, rig) + rig->ops->granule_bytes * below(&program->random, 8);
    uint64_t align = draw_align(program, rig);
    const bool last_resort = tested->sets_aside || chance(&program->random, 20);
    const weir_tick tick = draw_tick(program, rig, lane);
    if ((last_resort && chance(&program->random, 50)) || alloc(rig, lane, WEIR_TICK_MAX, size, align, NULL) == NULL) {
        if (chance(&program->random, 80)) {
            gather_at(rig, lane, tick, limits, lanes, size, align, last_resort);
        } else { /* the next step is another call */
            gather_only(rig, lane, tick, limits, lanes, size, align, last_resort);
        }
    }
}

/* Calls lane_add again for lanes that exist. This changes nothing. */
static void step_lane_add(struct program *program, struct rig *rig)
{
    if (rig->ops->lane_add != NULL) {
        assert_int_equal(rig->ops->lane_add(rig->state, draw_lane(program)), WEIR_OK);
        compare(rig);
    }
}

/* Acts as a pool with virtual memory: maps a part of a hole, or unmaps the memory of a free piece. */
static void step_claim(struct program *program, struct rig *rig)
{
    const struct piece *piece = &rig->book.at[below(&program->random, rig->book.count)];
    const uint64_t granule = rig->ops->granule_bytes;
    const uint64_t address = piece->address + granule * below(&program->random, piece->size / granule);
    const uint64_t size = granule * (1 + below(&program->random, chance(&program->random, 50) ? 3 : 24));
    const bool hole = piece->lane == WEIR_LANE_UNMAPPED;
    const weir_lane lane = chance(&program->random, 15) ? WEIR_LANE_UNMAPPED : draw_lane(program);
    weir_tick limits[LANES];
    draw_limits(program, rig, limits);
    const size_t count = 1 + (size_t)below(&program->random, chance(&program->random, 50) ? 1 : 8);
    void *tokens[8];
    if (claim_several(rig, address, size, count, hole ? NULL : limits, LANES, tokens)) {
        for (size_t i = 0; i < count; i++) {
            if (!chance(&program->random, 10)) {
                free_token(rig, tokens[i], hole ? lane : WEIR_LANE_UNMAPPED);
            }
        }
    }
}

static void step(struct program *program, struct rig *rig)
{
    uint64_t action = below(&program->random, 100);
    if (rig->one_kind && rig->book.count > 0 && chance(&program->random, 20)) {
        step_claim(program, rig);
        return;
    }
    if (action < 40) {
        step_alloc(program, rig);
    } else if (action < 74) {
        step_free(program, rig);
    } else if (action < 82) {
        weir_lane lane = draw_lane(program);
        promote(rig, lane, below(&program->random, rig->now[lane] + 2));
    } else if (action < 88) {
        step_gather(program, rig);
    } else if (action < 94) {
        step_remove(program, rig);
    } else if (action < 95) {
        step_lane_add(program, rig);
    } else if (alive_regions(rig) < MOST_REGIONS) {
        draw_region(program, rig);
    }
}

static void prepare(struct program *program, uint64_t seed)
{
    memset(program, 0, sizeof(*program));
    program->random.state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 8; i++) {
        draw(&program->random);
    }
    program->lanes = (weir_lane)(1 + below(&program->random, LANES - 1));
    program->large = chance(&program->random, 25) ? 40 : 0;
    program->aligned = chance(&program->random, 40) ? 25 : 0;
    program->most = 2 + below(&program->random, 12);
}

static void start_program(struct rig *rig, uint64_t seed, enum layout layout)
{
    start(rig, layout);
    rig->seed = seed;
    rig->one_kind = claims(rig) && seed % 3 == 0;
}

static void play_step(struct program *program, struct rig *rig)
{
    if (rig->step++ < 3) {
        draw_region(program, rig);
    } else {
        step(program, rig);
    }
}

static void run_program(struct program *program, uint64_t seed, enum layout layout)
{
    struct rig rig;
    start_program(&rig, seed, layout);
    while (rig.step < PROGRAM_STEPS) {
        play_step(program, &rig);
    }
    stop(&rig);
}

/* A process may have any number of pools. */
static void two_states_do_not_meet(void)
{
    for (uint64_t seed = 0; seed < 6; seed += 2) {
        struct program programs[2];
        struct rig rigs[2];
        for (uint64_t i = 0; i < 2; i++) {
            prepare(&programs[i], seed + i);
            start_program(&rigs[i], seed + i, ASCENDING); /* both have regions at the same addresses */
        }
        while (rigs[1].step < PROGRAM_STEPS) {
            play_step(&programs[0], &rigs[0]);
            play_step(&programs[1], &rigs[1]);
        }
        stop(&rigs[0]);
        compare(&rigs[1]);
        stop(&rigs[1]);
    }
}

static uint64_t first_seed = 0;
static uint64_t seed_count = DEFAULT_SEEDS;

static void random_programs(void)
{
    for (uint64_t seed = first_seed; seed - first_seed < seed_count; seed++) {
        struct program program;
        prepare(&program, seed);
        run_program(&program, seed, ASCENDING);
    }
}

static void require_same_log(uint64_t seed, const struct program *one, const struct program *two)
{
    if (one->log_count != two->log_count || memcmp(one->log, two->log, one->log_count * sizeof(*one->log)) != 0) {
        fail_msg("the same calls on shifted regions are placed otherwise (seed %llu)", (unsigned long long)seed);
    }
}

/* Rule 6: the program gives the same results if the regions lie at other addresses, and if their addresses are in the
 * opposite order. */
static void shifted_twins_agree(void)
{
    static uint64_t logs[2][2 * PROGRAM_STEPS];
    uint64_t seeds = seed_count < 10 ? seed_count : seed_count / 8;
    for (uint64_t seed = first_seed; seed - first_seed < seeds; seed++) {
        enum layout other = seed % 2 == 0 || tested->ties_by_address ? SHIFTED : DESCENDING;
        struct program programs[2];
        for (int twin = 0; twin < 2; twin++) {
            prepare(&programs[twin], seed);
            programs[twin].aligned = other == DESCENDING ? 0 : programs[twin].aligned;
            programs[twin].log = logs[twin];
            run_program(&programs[twin], seed, twin == 0 ? ASCENDING : other);
        }
        require_same_log(seed, &programs[0], &programs[1]);
    }
}

#endif
