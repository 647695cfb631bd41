//! Timing: how often a workload runs, and which statistic counts.
//!
//! The rules are those of the other libraries' measurements, so that results are comparable: a
//! warm-up, 5 to 60 samples, short calls in batches, and another round where the samples are spread
//! widely, because then another process ran. The result is the median of the round with the lowest
//! median: the minimum measures luck, and the mean measures other processes.

use elinvar::ops::Backend;
use elinvar::{Result, Tensor};
use std::hint::black_box;
use std::time::Instant;

/// Seconds of warm-up, with two calls at least: caches are filled, pages are mapped, the clock rate
/// is up.
const WARM_UP: f64 = 0.15;
/// Work that takes longer than this is warmed up by one call, and measured in one round.
const LONG: f64 = 2.0;
/// Calls shorter than this are timed in batches, because of the cost and the resolution of reading
/// the clock.
const SHORT: f64 = 200e-6;
/// Samples of a round at least and at most.
const SAMPLES: (usize, usize) = (5, 60);
/// Samples of a round of long work at least.
const LONG_SAMPLES: usize = 3;
/// A round is disturbed if its 90th percentile exceeds the 10th by this factor.
const SPREAD: f64 = 1.3;
/// Rounds at most.
const ROUNDS: usize = 3;

/// What a measurement found: seconds of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Of the round with the lowest median.
    pub median: f64,
    /// The quickest sample of that round.
    pub min: f64,
    /// The slowest sample of that round.
    pub max: f64,
    /// Samples of that round.
    pub samples: usize,
}

/// Synchronises: when it returns, the device has computed `x`. Every result of measured work passes
/// through here.
///
/// # Errors
/// The device's errors.
pub fn done<B: Backend>(x: &Tensor<B>) -> Result<()> {
    black_box(x).block_until_ready()?;
    B::synchronize(x.device())
}

/// Measures work for about this many seconds (and longer, if five samples take longer).
///
/// # Errors
/// The first error of the work.
pub fn measure(seconds: f64, work: &mut dyn FnMut() -> Result<()>) -> Result<Stats> {
    by(seconds, &mut |calls| {
        let start = Instant::now();
        for _ in 0..calls {
            work()?;
        }
        Ok(start.elapsed().as_secs_f64())
    })
}

/// The same with any clock: `timed` runs a number of calls and returns the seconds that they took
/// together.
fn by(seconds: f64, timed: &mut dyn FnMut(usize) -> Result<f64>) -> Result<Stats> {
    let one = warm_up(timed)?;
    let batch = if one < SHORT { (SHORT / one.max(1e-9)).ceil() as usize } else { 1 };
    let least = if one > LONG { LONG_SAMPLES } else { SAMPLES.0 };
    let samples = ((seconds / (batch as f64 * one)) as usize).clamp(least, SAMPLES.1);
    let mut best: Option<Stats> = None;
    for _ in 0..ROUNDS {
        let (stats, spread) = round(samples, batch, timed)?;
        best = best.filter(|b| b.median <= stats.median).or(Some(stats));
        if spread < SPREAD || one > LONG {
            break;
        }
    }
    Ok(best.expect("there is a round"))
}

/// Seconds of one call, the quickest of the warm-up.
fn warm_up(timed: &mut dyn FnMut(usize) -> Result<f64>) -> Result<f64> {
    let (mut calls, mut total, mut quickest) = (0, 0.0, f64::INFINITY);
    while (calls < 2 || total < WARM_UP) && total < LONG {
        let one = timed(1)?;
        (calls, total, quickest) = (calls + 1, total + one, quickest.min(one));
    }
    Ok(quickest)
}

/// The samples of one round, and their spread.
fn round(samples: usize, batch: usize, timed: &mut dyn FnMut(usize) -> Result<f64>) -> Result<(Stats, f64)> {
    let mut all = (0..samples).map(|_| Ok(timed(batch)? / batch as f64)).collect::<Result<Vec<f64>>>()?;
    all.sort_by(f64::total_cmp);
    let (n, at) = (samples, |part: usize| all[(samples * part / 10).min(samples - 1)]);
    let stats = Stats { median: all[n / 2], min: all[0], max: all[n - 1], samples: n };
    Ok((stats, at(9) / at(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar::Error;

    /// Runs on a clock whose call number `i` takes `seconds(i)`; returns the sizes of the batches,
    /// too.
    fn fake(budget: f64, seconds: impl Fn(usize) -> f64) -> (Stats, Vec<usize>) {
        let (mut i, mut batches) = (0, vec![]);
        let stats = by(budget, &mut |calls| {
            batches.push(calls);
            i += calls;
            Ok((i - calls..i).map(&seconds).sum())
        });
        (stats.unwrap(), batches)
    }

    #[test]
    fn as_many_samples_as_fit_the_time() {
        for (one, budget, warm_up, samples, why) in [
            (0.01, 0.5, 15, 50, "0.15 s of warm-up, then 0.5 s"),
            (0.01, 0.001, 15, 5, "five samples at least"),
            (0.01, 10.0, 15, 60, "sixty samples at most"),
            (1.0, 0.5, 2, 5, "two calls of warm-up"),
            (3.0, 0.5, 1, 3, "one call of warm-up and three samples, because each takes long"),
        ] {
            let (stats, batches) = fake(budget, |_| one);
            assert!(batches.iter().all(|&b| b == 1), "{why}");
            assert_eq!((batches.len(), stats.samples), (warm_up + samples, samples), "{why}");
            assert!((stats.median - one).abs() < 1e-12, "{why}: {stats:?}");
        }
    }

    #[test]
    fn short_calls_are_timed_in_batches() {
        let (stats, batches) = fake(0.02, |_| 3e-6);
        // 67 calls of 3 us are 201 us, and 20 ms some hundred batches.
        assert_eq!((stats.samples, *batches.last().unwrap()), (60, 67));
        assert!((stats.median - 3e-6).abs() < 1e-12, "{stats:?}");
    }

    #[test]
    fn the_median_of_the_quietest_round_counts() {
        // 15 calls of warm-up, then rounds of 50: the first and the third disturbed, the second
        // disturbed less.
        let round = |i: usize| i.saturating_sub(15) / 50;
        let (stats, batches) = fake(0.5, |i| match (i < 15, round(i), i % 2) {
            (true, ..) => 0.01,
            (_, 0, even) => 0.03 + 0.02 * even as f64,
            (_, 1, even) => 0.01 + 0.01 * even as f64,
            (_, _, even) => 0.02 + 0.02 * even as f64,
        });
        assert_eq!(batches.len(), 15 + 3 * 50, "each round lies apart");
        assert_eq!((stats.median, stats.min, stats.max), (0.02, 0.01, 0.02));
        // Narrow samples need no second round, nor does one slow sample in ten.
        let (stats, batches) = fake(0.5, |i| if i == 40 { 1.0 } else { 0.01 });
        assert_eq!((batches.len(), stats.median, stats.max), (65, 0.01, 1.0));
    }

    #[test]
    fn an_error_of_the_work_ends_it() {
        let mut calls = 0;
        let e = measure(1.0, &mut || {
            calls += 1;
            Err(Error::argument("on purpose"))
        });
        assert_eq!((calls, e.unwrap_err().message()), (1, "on purpose"));
    }
}
