//! What a program may do: steps, bytes and levels of the stack, counted where they happen.
//!
//! A program may catch errors, so that the end of what it may do is none: the evaluation is unwound to where it began.
//! Unwinding is what a panic does, without its message; the values that it passes are dropped as always.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Operations on values of one evaluation: some milliseconds, and about half a second.
pub(super) const STEPS_BRIEF: u64 = 20_000;
pub(super) const STEPS_FULL: u64 = 5_000_000;

/// Bytes that one evaluation makes, whether it keeps them or not.
const BYTES_MAX: usize = 64 << 20;

/// Bytes of the stack that one evaluation uses. A thread has 2 MiB.
const STACK_MAX: usize = 640 << 10;

/// What a program did too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// It took too many steps.
    #[error("takes more steps than one may")]
    Steps,
    /// It made too much.
    #[error("makes more than {} MiB", BYTES_MAX >> 20)]
    Bytes,
    /// It called itself too deeply, or nested values too deeply.
    #[error("goes deeper than one may")]
    Depth,
    /// The evaluator failed.
    #[error("broke its evaluator")]
    Broken,
}

#[derive(Clone, Copy)]
struct Left {
    steps: u64,
    bytes: usize,
    /// The lowest address that the stack may grow down to.
    floor: usize,
}

const UNBOUNDED: Left = Left { steps: u64::MAX, bytes: usize::MAX, floor: 0 };

thread_local! {
    static LEFT: Cell<Left> = const { Cell::new(UNBOUNDED) };
}

/// Runs an evaluation within the limits.
pub(super) fn within<T>(steps: u64, evaluate: impl FnOnce() -> T) -> Result<T, Limit> {
    LEFT.set(Left { steps, bytes: BYTES_MAX, floor: here().saturating_sub(STACK_MAX) });
    // What is unwound through is dropped, not used again.
    let evaluated = catch_unwind(AssertUnwindSafe(evaluate));
    LEFT.set(UNBOUNDED);
    evaluated.map_err(|cause| cause.downcast_ref::<Limit>().copied().unwrap_or(Limit::Broken))
}

/// One operation.
pub(super) fn step() {
    steps(1);
}

/// Several operations.
pub(super) fn steps(count: usize) {
    let mut left = LEFT.get();
    match left.steps.checked_sub(count as u64) {
        None => end(Limit::Steps),
        Some(_) if left.floor > 0 && here() < left.floor => end(Limit::Depth),
        Some(steps) => {
            left.steps = steps;
            LEFT.set(left);
        }
    }
}

/// Bytes that are about to be made.
pub(super) fn bytes(count: usize) {
    let mut left = LEFT.get();
    let Some(bytes) = left.bytes.checked_sub(count) else { end(Limit::Bytes) };
    left.bytes = bytes;
    LEFT.set(left);
}

/// Ends the evaluation. From here on nothing is counted, as dropping what is left may take steps.
pub(super) fn end(limit: Limit) -> ! {
    LEFT.set(UNBOUNDED);
    resume_unwind(Box::new(limit))
}

/// About where the stack is.
#[inline(never)]
fn here() -> usize {
    let mark = 0_u8;
    std::ptr::from_ref(&mark).addr()
}
