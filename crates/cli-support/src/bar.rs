//! A progress bar on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Characters of the bar itself.
const CELLS: u64 = 30;
/// An eye sees no more, and each drawing is a system call.
const PAUSE: Duration = Duration::from_millis(50);

/// How far something is, in the last line of a terminal. Where standard error is none, nothing is
/// drawn. It goes away when it is dropped.
pub struct Bar {
    len: u64,
    hidden: bool,
    state: Mutex<State>,
}

struct State {
    done: u64,
    label: String,
    /// What was done at the start that the time left is reckoned from.
    from: (u64, Instant),
    drawn: Option<Instant>,
}

impl Bar {
    /// At the start of so many steps; drawn if `show`, and on a terminal.
    pub fn new(len: u64, show: bool) -> Bar {
        let state = State { done: 0, label: String::new(), from: (0, Instant::now()), drawn: None };
        Bar { len, hidden: !show || !stderr().is_terminal(), state: Mutex::new(state) }
    }

    /// Is it never drawn?
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// So many steps are done.
    pub fn at(&self, done: u64) {
        let mut state = self.state();
        state.done = done;
        if state.drawn.is_none_or(|at| at.elapsed() >= PAUSE) {
            self.draw(&mut state);
        }
    }

    /// So many steps were done before this run: the time left is that of the steps from here on.
    pub fn resume(&self, done: u64) {
        self.state().from = (done, Instant::now());
        self.at(done);
    }

    /// What it says behind the bar, from the next step on.
    pub fn label(&self, label: String) {
        self.state().label = label;
    }

    /// Does something while the bar is out of the way, such as printing a line.
    pub fn aside<T>(&self, f: impl FnOnce() -> T) -> T {
        self.clear();
        let result = f();
        self.draw(&mut self.state());
        result
    }

    /// Takes the bar away, until the next step.
    pub fn clear(&self) {
        if self.state().drawn.take().is_some() {
            // A closed standard error is no fault.
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }

    fn draw(&self, state: &mut State) {
        if self.hidden {
            return;
        }
        let (from, start) = state.from;
        let steps = state.done.saturating_sub(from);
        let left = (steps > 0).then(|| {
            start.elapsed().as_secs_f64() / steps as f64 * self.len.saturating_sub(state.done) as f64
        });
        // A line that is too long is cut off, not wrapped: the next drawing could not clear it.
        let _ =
            write!(stderr(), "\r\x1b[?7l{}\x1b[K\x1b[?7h", line(state.done, self.len, &state.label, left));
        state.drawn = Some(Instant::now());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(done: u64, len: u64, label: &str, seconds_left: Option<f64>) -> String {
    let share = (done as f64 / len.max(1) as f64).min(1.0);
    let full = (share * CELLS as f64) as usize;
    let left = match seconds_left {
        None => String::new(),
        Some(s) if s < 99.5 => format!("  {s:.0} s left"),
        Some(s) if s < 99.5 * 60.0 => format!("  {:.0} min left", s / 60.0),
        Some(s) => format!("  {:.0} h left", s / 3600.0),
    };
    let (bar, rest) = ("█".repeat(full), "░".repeat(CELLS as usize - full));
    format!("{bar}{rest} {:3.0} %  {label}{left}", (100.0 * share).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let bar = |full| format!("{}{}", "█".repeat(full), "░".repeat(30 - full));
        for (done, len, left, full, text) in [
            (0, 10, None, 0, "   0 %  x"),
            (1, 3, Some(99.4), 10, "  33 %  x  99 s left"),
            (999, 1000, Some(0.2), 29, "  99 %  x  0 s left"),
            (10, 10, Some(100.0), 30, " 100 %  x  2 min left"),
            (11, 10, Some(6000.0), 30, " 100 %  x  2 h left"),
            (0, 0, None, 0, "   0 %  x"),
        ] {
            assert_eq!(line(done, len, "x", left), format!("{}{text}", bar(full)));
        }
    }

    #[test]
    fn a_hidden_bar_draws_nothing() {
        let bar = Bar::new(3, false);
        bar.resume(1);
        bar.label("x".into());
        bar.at(2);
        assert_eq!((bar.is_hidden(), bar.aside(|| 7)), (true, 7));
        assert!(bar.state().drawn.is_none());
    }
}
