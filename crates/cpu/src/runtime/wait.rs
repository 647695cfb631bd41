//! Waiting: locks that a panic does not poison, and a spin that yields.

use super::plan::POLLS_PER_CLOCK_READ;
use elinvar_core::clock::Instant;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long a thread without work keeps the processor to itself.
const SPIN_TIME: Duration = Duration::from_micros(30);

pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks for `long` whether `done`, first alone on its processor, then behind all others.
pub(crate) fn spin_until(long: Duration, done: impl Fn() -> bool) -> bool {
    if done() {
        return true;
    }
    let clock = Instant::now();
    let mut waited = Duration::ZERO;
    loop {
        for _ in 0..POLLS_PER_CLOCK_READ {
            if done() {
                return true;
            }
            if waited < SPIN_TIME { std::hint::spin_loop() } else { thread::yield_now() }
        }
        waited = clock.elapsed();
        if waited >= long {
            return done();
        }
    }
}
