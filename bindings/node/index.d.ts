// index.d.ts: types of the package.
import { ChildProcess, SpawnOptions } from 'node:child_process';

export interface RunOptions {
    /** The most bytes that the heap of a process may hold; 0: no limit. At the limit malloc returns NULL. */
    limitBytes?: number;
    /** The file to which each process adds its report; without it the program's report goes to standard error. */
    report?: string;
    /** Print no report. */
    quiet?: boolean;
}

/** Figures of the malloc that serves this process, in bytes. */
export interface Stats {
    liveBytes: number;
    heldBytes: number;
}

/** The path of the `weir` command. */
export const command: string;
/** The path of the library for LD_PRELOAD. */
export const preload: string;

/** Starts a program of any language with a weir heap in the place of its malloc. */
export function run(program: string, args?: readonly string[], options?: RunOptions & SpawnOptions): ChildProcess;
/** Starts this program again on a heap, if it does not run on one. Call it first. */
export function enable(options?: RunOptions): void;
/** Whether malloc is weir's in this process. */
export function isEnabled(): boolean;
export function stats(): Stats;
/** Gives idle memory of malloc back to the system; true if some went back. */
export function trim(): boolean;
/**
 * Makes a heap the allocator of onnxruntime-node's sessions that are created from now on with the returned options.
 * @param ort the module onnxruntime-node
 */
export function onnxruntime(ort: object, options?: { limitBytes?: number; report?: boolean }): {
    extra: { session: Record<string, string> };
};
