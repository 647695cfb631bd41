//! The host's clock: [`Instant`] is the standard library's, and on `wasm32-unknown-unknown`, where
//! that one panics, a clock that stands still until the program brings one (`set_clock`).
//!
//! No bit of a result depends on it: it decides when checkpoints are due, how work is split among
//! threads, and what profiles say.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use std::time::Instant;

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
pub use host_given::{Instant, set_clock};

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
mod host_given {
    use std::sync::OnceLock;
    use std::time::Duration;

    static CLOCK: OnceLock<fn() -> Duration> = OnceLock::new();

    /// The clock of this program: the time since any moment, which never goes back. In a browser,
    /// `performance.now`. The first one stays.
    pub fn set_clock(now: fn() -> Duration) {
        CLOCK.get_or_init(|| now);
    }

    /// A moment on the program's clock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Instant(Duration);

    impl Instant {
        /// This moment.
        pub fn now() -> Instant {
            Instant(CLOCK.get().map_or(Duration::ZERO, |now| now()))
        }
        /// The time since then.
        pub fn elapsed(&self) -> Duration {
            Instant::now().0.saturating_sub(self.0)
        }
    }
}
