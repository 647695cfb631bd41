//! Early stopping: a run ends when its validation score no longer improves.

use super::Score;
use serde::{Deserialize, Serialize};

/// Ends a run when a validation score has not improved for some epochs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlyStopping {
    patience: usize,
    min_delta: f64,
    metric: Option<String>,
    best: Option<f64>,
    waited: usize,
}

impl EarlyStopping {
    /// Ends the run when the validation loss has not decreased for this many epochs.
    pub fn new(patience: usize) -> Self {
        EarlyStopping { patience, min_delta: 0.0, metric: None, best: None, waited: 0 }
    }
    /// Monitors a metric, to be maximised, instead of the loss, to be minimised.
    #[must_use]
    pub fn metric(mut self, name: &str) -> Self {
        self.metric = Some(name.to_owned());
        self
    }
    /// The smallest change that counts as an improvement.
    #[must_use]
    pub fn min_delta(mut self, delta: f64) -> Self {
        self.min_delta = delta;
        self
    }
    /// Adds an epoch's validation score: (is it the best so far, should the run end).
    pub(super) fn see(&mut self, score: &Score) -> (bool, bool) {
        let seen = match &self.metric {
            None => -score.loss,
            Some(name) => score.metrics.get(name).copied().unwrap_or(f64::NAN),
        };
        // A comparison with NaN is false: it is never the best.
        if self.best.is_none_or(|best| seen > best + self.min_delta) && !seen.is_nan() {
            (self.best, self.waited) = (Some(seen), 0);
            (true, false)
        } else {
            self.waited += 1;
            (false, self.waited >= self.patience)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn score(loss: f64, accuracy: f64) -> Score {
        Score { loss, metrics: BTreeMap::from([("accuracy".to_owned(), accuracy)]), samples: 1 }
    }

    #[test]
    fn early_stopping_ends_without_improvement() {
        let rows: [(&str, EarlyStopping, &[(f64, f64)], Option<usize>); 6] = [
            ("falls for ever", EarlyStopping::new(2), &[(3.0, 0.0), (2.0, 0.0), (1.0, 0.0)], None),
            ("stays", EarlyStopping::new(2), &[(3.0, 0.0), (3.0, 0.0), (3.0, 0.0)], Some(2)),
            (
                "rests and falls",
                EarlyStopping::new(2),
                &[(3.0, 0.0), (3.0, 0.0), (2.0, 0.0), (2.5, 0.0)],
                None,
            ),
            ("falls too little", EarlyStopping::new(1).min_delta(0.5), &[(3.0, 0.0), (2.75, 0.0)], Some(1)),
            ("is no number", EarlyStopping::new(2), &[(f64::NAN, 0.0), (f64::NAN, 0.0)], Some(1)),
            (
                "another number",
                EarlyStopping::new(1).metric("accuracy"),
                &[(1.0, 0.5), (2.0, 0.6), (0.1, 0.6)],
                Some(2),
            ),
        ];
        for (name, mut stop, scores, want) in rows {
            let got = scores.iter().position(|&(l, a)| stop.see(&score(l, a)).1);
            assert_eq!(got, want, "{name}");
        }
    }
}
