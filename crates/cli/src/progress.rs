//! How far a training run is, on standard error: a bar on a terminal, a line per epoch elsewhere, nothing if quiet.

use elinvar::nn::train::EpochReport;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::Write;
use std::time::Instant;

/// The report of a running training.
pub struct Progress {
    bar: ProgressBar,
    /// Lines instead of the bar?
    lines: bool,
    start: Instant,
    samples: usize,
    epochs: u64,
    test: String,
}

impl Progress {
    /// At the start of so many steps in each of so many epochs.
    pub fn new(steps: u64, epochs: u64, quiet: bool) -> Progress {
        let style = ProgressStyle::with_template("{wide_bar} {prefix}  {msg}  {eta} left");
        let bar = ProgressBar::with_draw_target(
            Some(steps * epochs),
            if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() },
        );
        bar.set_style(style.expect("the template is a constant that parses"));
        bar.set_prefix(format!("epoch 1/{epochs}"));
        let lines = !quiet && bar.is_hidden();
        Progress { bar, lines, start: Instant::now(), samples: 0, epochs, test: String::new() }
    }

    /// After a step with this loss.
    pub fn step(&mut self, loss: f64, samples: usize) {
        self.samples += samples;
        self.bar.set_message(format!("loss {loss:.4}{}  {:.0} samples/s", self.test, self.speed()));
        self.bar.inc(1);
    }

    /// After an epoch.
    pub fn epoch(&mut self, report: &EpochReport) {
        let done = report.epoch as u64 + 1;
        self.test =
            report.test.map(|s| format!("  test accuracy {:.2} %", 100.0 * s.accuracy())).unwrap_or_default();
        self.bar.set_prefix(format!("epoch {}/{}", (done + 1).min(self.epochs), self.epochs));
        if self.lines {
            let (loss, speed) = (report.train.loss, self.speed());
            // Whoever has closed standard error does not want to know.
            let _ = writeln!(
                std::io::stderr(),
                "epoch {done}/{}  loss {loss:.4}{}  {speed:.0} samples/s",
                self.epochs,
                self.test
            );
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn speed(&self) -> f64 {
        self.samples as f64 / self.start.elapsed().as_secs_f64().max(1e-9)
    }
}
