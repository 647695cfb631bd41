//! Samples by index, and adapters: subsets, maps, concatenations.

use crate::data::Stackable;
use elinvar_core::philox::{Stream, permutation};
use elinvar_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// The stream of splits: distinct from those of weights and of epoch orders under the same seed.
const SPLITS: u64 = 0x7370_6c69_7473;
/// Tolerance for fractions that should add up to 1: ten times 0.1 is off by 1e-16.
const WHOLE: f64 = 1e-9;

/// Samples by index.
///
/// `get` may be called by several threads at once, in any order; its result should depend on the
/// index alone, or training is not reproducible.
///
/// ```
/// use elinvar_core::Result;
/// use elinvar_nn::data::Dataset;
///
/// struct Squares(usize);
///
/// impl Dataset for Squares {
///     type Item = i64;
///     fn len(&self) -> usize {
///         self.0
///     }
///     fn get(&self, i: usize) -> Result<i64> {
///         Ok((i * i) as i64)
///     }
/// }
///
/// let halves = Squares(10).map(|n| Ok(n as f32 / 2.0));
/// assert_eq!(halves.get(3)?, 4.5);
/// let parts = halves.split(&[0.8, 0.2], 1)?;
/// assert_eq!((parts[0].len(), parts[1].len()), (8, 2));
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub trait Dataset: Send + Sync {
    /// A sample.
    type Item: Send;

    /// Number of samples.
    fn len(&self) -> usize;

    /// Sample `i`.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such sample; what reading it reports.
    fn get(&self, i: usize) -> Result<Self::Item>;

    /// Is it empty?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batch of these samples, if there is a faster way than calling [`get`](Dataset::get) for
    /// each; else `None`. It must be equal to the stacked samples.
    fn stacked(&self, samples: &[usize]) -> Option<Result<<Self::Item as Stackable>::Batch>>
    where
        Self::Item: Stackable,
    {
        let _ = samples;
        None
    }

    /// Some of the samples, in the given order; an index may occur twice.
    ///
    /// # Errors
    /// `InvalidArgument` if a sample does not exist.
    fn subset(self, indices: Vec<usize>) -> Result<Subset<Self>>
    where
        Self: Sized,
    {
        Subset::new(Arc::new(self), indices)
    }

    /// Applies a function to each sample.
    fn map<U: Send, F: Fn(Self::Item) -> Result<U> + Send + Sync>(self, f: F) -> Mapped<Self, F>
    where
        Self: Sized,
    {
        Mapped { data: self, f }
    }

    /// These samples, followed by the other's.
    fn concat<D: Dataset<Item = Self::Item>>(self, then: D) -> Concat<Self, D>
    where
        Self: Sized,
    {
        Concat { first: self, then }
    }

    /// Shuffles by the seed and splits into parts of these fractions, the same on every machine.
    ///
    /// Part `i` ends at sample `round(n * (f0 + .. + fi))` of the shuffled ones.
    ///
    /// # Errors
    /// `InvalidArgument` if the fractions do not add up to 1, or a part would have no samples.
    fn split(self, fractions: &[f64], seed: u64) -> Result<Vec<Subset<Self>>>
    where
        Self: Sized,
    {
        let ends = ends(self.len(), fractions)?;
        let order = permutation(self.len(), Stream { seed, stream: SPLITS })?;
        let data = Arc::new(self);
        let mut from = 0;
        ends.into_iter()
            .map(|to| {
                let part = order[from..to].to_vec();
                from = to;
                Subset::new(data.clone(), part)
            })
            .collect()
    }

    /// Shuffles by the seed and splits into `k` parts whose sizes differ by at most 1 (k-fold
    /// cross-validation): for each part, all other samples for training, and its own for testing.
    ///
    /// # Errors
    /// `InvalidArgument` if `k` is below 2 or above the number of samples.
    fn k_fold(self, k: usize, seed: u64) -> Result<Vec<(Subset<Self>, Subset<Self>)>>
    where
        Self: Sized,
    {
        let n = self.len();
        if k < 2 || k > n {
            return Err(Error::argument(format!(
                "k_fold: {k} parts of {n} samples; from 2 to as many parts as samples would fit"
            )));
        }
        let order = permutation(n, Stream { seed, stream: SPLITS })?;
        let data = Arc::new(self);
        // The first n % k parts have one sample more.
        let start = |i: usize| i * (n / k) + i.min(n % k);
        (0..k)
            .map(|i| {
                let (from, to) = (start(i), start(i + 1));
                let learn = order[..from].iter().chain(&order[to..]).copied().collect();
                let test = order[from..to].to_vec();
                Ok((Subset::new(data.clone(), learn)?, Subset::new(data.clone(), test)?))
            })
            .collect()
    }
}

/// The ends of the parts of these fractions.
fn ends(n: usize, fractions: &[f64]) -> Result<Vec<usize>> {
    let total: f64 = fractions.iter().sum();
    // Negated so that NaN fails too.
    if !((total - 1.0).abs() <= WHOLE && fractions.iter().all(|f| *f > 0.0)) {
        return Err(Error::argument(format!(
            "split: parts of {fractions:?}; they should be above 0 and add up to 1"
        )));
    }
    let (mut sum, mut from, mut ends) = (0.0, 0, Vec::with_capacity(fractions.len()));
    for (i, fraction) in fractions.iter().enumerate() {
        sum += fraction;
        let last = i + 1 == fractions.len();
        let to = if last { n } else { (((n as f64) * sum).round() as usize).min(n) };
        if to == from {
            return Err(Error::argument(format!(
                "split: the part of {fraction} of {n} samples is empty; it needs a larger fraction"
            )));
        }
        ends.push(to);
        from = to;
    }
    Ok(ends)
}

/// Checks that there is a sample `i` of `n`.
pub(crate) fn exists(i: usize, n: usize) -> Result<()> {
    if i < n {
        return Ok(());
    }
    Err(Error::argument(format!("data: there is no sample {i}, only {n} of them")))
}

/// A shared data set is a data set.
impl<D: Dataset + ?Sized> Dataset for Arc<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        (**self).len()
    }
    fn get(&self, i: usize) -> Result<D::Item> {
        (**self).get(i)
    }
    fn stacked(&self, samples: &[usize]) -> Option<Result<<D::Item as Stackable>::Batch>>
    where
        D::Item: Stackable,
    {
        (**self).stacked(samples)
    }
}

/// Some of the samples of a data set: see [`Dataset::subset`] and [`Dataset::split`].
#[derive(Debug)]
pub struct Subset<D> {
    data: Arc<D>,
    indices: Arc<[usize]>,
}

impl<D> Clone for Subset<D> {
    fn clone(&self) -> Self {
        Subset { data: self.data.clone(), indices: self.indices.clone() }
    }
}

impl<D: Dataset> Subset<D> {
    fn new(data: Arc<D>, indices: Vec<usize>) -> Result<Self> {
        indices.iter().try_for_each(|i| exists(*i, data.len()).map_err(|e| e.at("subset")))?;
        Ok(Subset { data, indices: indices.into() })
    }
    /// The indices of the samples in the whole data set.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }
    /// The whole data set.
    pub fn whole(&self) -> &Arc<D> {
        &self.data
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn get(&self, i: usize) -> Result<D::Item> {
        exists(i, self.len())?;
        self.data.get(self.indices[i])
    }
    fn stacked(&self, samples: &[usize]) -> Option<Result<<D::Item as Stackable>::Batch>>
    where
        D::Item: Stackable,
    {
        let inner = samples.iter().map(|i| exists(*i, self.len()).map(|()| self.indices[*i]));
        match inner.collect::<Result<Vec<_>>>() {
            Ok(inner) => self.data.stacked(&inner),
            Err(e) => Some(Err(e)),
        }
    }
}

/// A function of each sample: see [`Dataset::map`].
#[derive(Clone)]
pub struct Mapped<D, F> {
    data: D,
    f: F,
}

impl<D: fmt::Debug, F> fmt::Debug for Mapped<D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapped").field("data", &self.data).finish_non_exhaustive()
    }
}

impl<D: Dataset, U: Send, F: Fn(D::Item) -> Result<U> + Send + Sync> Dataset for Mapped<D, F> {
    type Item = U;
    fn len(&self) -> usize {
        self.data.len()
    }
    fn get(&self, i: usize) -> Result<U> {
        (self.f)(self.data.get(i)?)
    }
}

/// One data set after the other: see [`Dataset::concat`].
#[derive(Clone, Debug)]
pub struct Concat<A, B> {
    first: A,
    then: B,
}

impl<A: Dataset, B: Dataset<Item = A::Item>> Dataset for Concat<A, B> {
    type Item = A::Item;
    fn len(&self) -> usize {
        self.first.len() + self.then.len()
    }
    fn get(&self, i: usize) -> Result<A::Item> {
        exists(i, self.len())?;
        match i.checked_sub(self.first.len()) {
            None => self.first.get(i),
            Some(i) => self.then.get(i),
        }
    }
}
