//! Samples in batches, in an order that is the same on every machine.
//!
//! The order of an epoch is a function of the seed and the epoch's number alone, so a run can
//! resume in the middle of an epoch without reading its beginning. The position of a run in its
//! data is the pair (epoch, batch).

use crate::data::dataset::exists;
use crate::data::prefetch::{Ahead, Make, guarded};
use crate::data::sampler::Order;
use crate::data::{
    Collate, Dataset, DeviceBatches, Draw, Pairs, Prefetch, SampleRandom, Stack, Stackable, Upload,
};
use elinvar_core::{Error, HostTensor, Result};
use elinvar_distributed::Runs;
use elinvar_distributed::tree::part;
use elinvar_io::weights_hash;
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Some samples with their targets, on a device.
#[derive(Clone, Debug)]
pub struct Batch<B: Backend> {
    /// [n, ..]
    pub x: Tensor<B>,
    /// [n, ..]
    pub y: Tensor<B>,
    /// The indices of the samples.
    pub samples: Vec<usize>,
}

/// Some samples in host memory.
#[derive(Clone, Debug, PartialEq)]
pub struct HostBatch<T> {
    /// The result of the loader's [`Collate`].
    pub data: T,
    /// The indices of the samples.
    pub samples: Vec<usize>,
}

impl HostBatch<(HostTensor, HostTensor)> {
    /// The batch on a device.
    ///
    /// # Errors
    /// `OutOfMemory`, or what the device reports.
    pub fn to_device<B: Backend>(self, device: &B::Device) -> Result<Batch<B>> {
        let (x, y) = self.data.upload::<B>(device)?;
        Ok(Batch { x, y, samples: self.samples })
    }
}

/// Gives all samples in batches, epoch after epoch. By default in their own order, with a smaller
/// batch at the end.
///
/// `D` is the data set, `C` makes a batch of samples: by default [`Stack`], see
/// [`collate`](Loader::collate).
///
/// ```
/// use elinvar_core::Result;
/// use elinvar_nn::data::{Dataset, Loader, Prefetch};
/// use std::sync::Arc;
///
/// struct Squares;
///
/// impl Dataset for Squares {
///     type Item = (f32, i64);
///     fn len(&self) -> usize {
///         10
///     }
///     fn get(&self, i: usize) -> Result<(f32, i64)> {
///         Ok((i as f32, (i * i) as i64))
///     }
/// }
///
/// let loader = Loader::new(Arc::new(Squares), 4)?.shuffle(1).prefetch(Prefetch::new(2));
/// for epoch in 0..2 {
///     for batch in loader.host_epoch(epoch, 0) {
///         let (x, y) = batch?.data;
///         assert_eq!(x.shape(), y.shape());
///     }
/// }
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub struct Loader<D: Dataset = Pairs, C = Stack> {
    data: Arc<D>,
    collate: Arc<C>,
    batch_size: usize,
    order: Order,
    drop_last: bool,
    augment: Option<Augment<D::Item>>,
    prefetch: Prefetch,
    double_buffer: bool,
}

/// A random augmentation of a sample.
struct Augment<T> {
    seed: u64,
    f: Arc<dyn Fn(T, &mut SampleRandom) -> Result<T> + Send + Sync>,
}

impl<T> Clone for Augment<T> {
    fn clone(&self) -> Self {
        Augment { seed: self.seed, f: self.f.clone() }
    }
}

impl<D: Dataset, C> Clone for Loader<D, C> {
    fn clone(&self) -> Self {
        Loader {
            data: self.data.clone(),
            collate: self.collate.clone(),
            batch_size: self.batch_size,
            order: self.order.clone(),
            drop_last: self.drop_last,
            augment: self.augment.clone(),
            prefetch: self.prefetch,
            double_buffer: self.double_buffer,
        }
    }
}

impl<D: Dataset, C> fmt::Debug for Loader<D, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("samples", &self.data.len())
            .field("batch_size", &self.batch_size)
            .field("order", &self.order)
            .field("drop_last", &self.drop_last)
            .field("augment", &self.augment.as_ref().map(|a| a.seed))
            .field("prefetch", &self.prefetch)
            .field("double_buffer", &self.double_buffer)
            .finish()
    }
}

impl<D: Dataset> Loader<D, Stack> {
    /// Batches of this size.
    ///
    /// # Errors
    /// `InvalidArgument` if the size is 0.
    pub fn new(data: Arc<D>, batch_size: usize) -> Result<Self> {
        if batch_size == 0 {
            return Err(Error::argument("loader: batches of 0 samples never end; ask for 1 at least"));
        }
        Ok(Loader {
            data,
            collate: Arc::new(Stack),
            batch_size,
            order: Order::AsIs,
            drop_last: false,
            augment: None,
            prefetch: Prefetch::new(0),
            double_buffer: true,
        })
    }
}

impl<D: Dataset, C> Loader<D, C> {
    /// Shuffles anew in each epoch, by this seed.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.order = Order::Shuffled { seed };
        self
    }
    /// An epoch is `count` samples drawn uniformly with replacement, by this seed and anew for each
    /// epoch.
    ///
    /// # Errors
    /// `InvalidArgument` if the data set is empty.
    pub fn draw(mut self, count: usize, seed: u64) -> Result<Self> {
        self.order = Order::drawn(self.data.len(), count, seed)?;
        Ok(self)
    }
    /// An epoch is `count` samples drawn by weight, by this seed and anew for each epoch.
    ///
    /// A sample is drawn in proportion to its weight, with replacement or, with [`Draw::Once`],
    /// without.
    ///
    /// # Errors
    /// `InvalidArgument` if there is not one weight for each sample, if one is below 0 or not
    /// finite, or if there are fewer samples of weight above 0 than are drawn without replacement.
    pub fn weighted(mut self, weights: Vec<f64>, count: usize, draw: Draw, seed: u64) -> Result<Self> {
        self.order = Order::weighted(self.data.len(), weights, count, draw, seed)?;
        Ok(self)
    }
    /// Drops a last batch that is not full.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }
    /// Sets the collate function.
    #[must_use]
    pub fn collate<C2: Collate<D::Item>>(self, collate: C2) -> Loader<D, C2> {
        Loader {
            data: self.data,
            collate: Arc::new(collate),
            batch_size: self.batch_size,
            order: self.order,
            drop_last: self.drop_last,
            augment: self.augment,
            prefetch: self.prefetch,
            double_buffer: self.double_buffer,
        }
    }
    /// Augments each sample before it is put into a batch: `f` gets random numbers that depend on
    /// this seed, the epoch and the sample.
    #[must_use]
    pub fn augment(
        mut self,
        seed: u64,
        f: impl Fn(D::Item, &mut SampleRandom) -> Result<D::Item> + Send + Sync + 'static,
    ) -> Self {
        self.augment = Some(Augment { seed, f: Arc::new(f) });
        self
    }
    /// Prefetches batches on other threads.
    #[must_use]
    pub fn prefetch(mut self, prefetch: Prefetch) -> Self {
        self.prefetch = prefetch;
        self
    }
    /// Double buffering, which is on: while a step computes, the next batch is gathered in pinned
    /// memory and copied in a stream of its own (see [`DeviceBatches`]). Off, a batch is made and
    /// copied when it is asked for. The batches are the same.
    #[must_use]
    pub fn double_buffer(mut self, double_buffer: bool) -> Self {
        self.double_buffer = double_buffer;
        self
    }
    /// The data set.
    pub fn data(&self) -> &Arc<D> {
        &self.data
    }
    /// Batches in an epoch.
    pub fn batches(&self) -> usize {
        let n = self.order.count(self.data.len());
        if self.drop_last { n / self.batch_size } else { n.div_ceil(self.batch_size) }
    }
    /// The samples of an epoch, in their order.
    ///
    /// # Errors
    /// `OutOfMemory` if there is no memory for so many.
    pub fn order(&self, epoch: u64) -> Result<Vec<usize>> {
        self.order.of(self.data.len(), epoch).map_err(|e| e.at("loader"))
    }
}

impl<D: Dataset + 'static, C: Collate<D::Item> + 'static> Loader<D, C> {
    /// The batches of an epoch from batch `start` on, in host memory. If there is no memory for the
    /// order of its samples, the error is all there is.
    pub fn host_epoch(&self, epoch: u64, start: usize) -> Batches<C::Batch> {
        self.host_parts(epoch, start, 1, 0..1)
    }
    /// The batches of an epoch from batch `start` on, each cut into `parts`: those in `mine` of the
    /// first batch, of the next one, and so on.
    fn host_parts(&self, epoch: u64, start: usize, parts: usize, mine: Range<usize>) -> Batches<C::Batch> {
        let order = match self.order(epoch) {
            Ok(order) => order,
            Err(e) => return Batches(BatchSource::Refused(Some(e))),
        };
        let (loader, each) = (self.clone(), mine.len());
        let make: Make<HostBatch<C::Batch>> = Arc::new(move |i, stop| {
            let from = i / each * loader.batch_size;
            let batch = &order[from..order.len().min(from + loader.batch_size)];
            let samples = &batch[part(batch.len(), parts, mine.start + i % each)];
            loader.make(epoch, samples.to_vec(), stop)
        });
        let range = start.min(self.batches()) * each..self.batches() * each;
        Batches(match self.prefetch.workers() {
            0 => BatchSource::Here { range, make },
            _ => BatchSource::Ahead(Ahead::start(range, self.prefetch, make, |b| b.data.bytes())),
        })
    }

    /// A batch of these samples.
    fn make(&self, epoch: u64, samples: Vec<usize>, stop: &AtomicBool) -> Result<HostBatch<C::Batch>> {
        let watched = Watched { data: &*self.data, stop };
        let data = match &self.augment {
            None => self.collate.batch(&watched, &samples)?,
            Some(a) => {
                let get = |i: &usize| (a.f)(watched.get(*i)?, &mut SampleRandom::new(a.seed, epoch, *i));
                self.collate.collate(samples.iter().map(get).collect::<Result<_>>()?)?
            }
        };
        Ok(HostBatch { data, samples })
    }
}

impl<D, C> Loader<D, C>
where
    D: Dataset + 'static,
    C: Collate<D::Item, Batch = (HostTensor, HostTensor)> + 'static,
{
    /// The batches of an epoch from batch `start` on, on a device.
    pub fn epoch<'a, B: Backend>(
        &'a self,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> DeviceBatches<'a, B> {
        DeviceBatches::new(self.host_epoch(epoch, start), device, self.double_buffer)
    }
    /// The gradient shards of a worker, on a device: of each batch of an epoch from batch `start`
    /// on, one after the other. Nothing else is read of the data set. Which samples they are
    /// depends on the seed, the epoch, the batch and the shard alone.
    ///
    /// # Errors
    /// `InvalidArgument` if a batch has fewer samples than there are shards.
    pub fn epoch_of_shards<'a, B: Backend>(
        &'a self,
        runs: Runs,
        worker: usize,
        epoch: u64,
        start: usize,
        device: &'a B::Device,
    ) -> Result<DeviceBatches<'a, B>> {
        let n = self.order.count(self.data.len());
        let last = if self.drop_last || n.is_multiple_of(self.batch_size) {
            self.batch_size
        } else {
            n % self.batch_size
        };
        if last < runs.shards() {
            return Err(Error::argument(format!(
                "loader: a batch of {last} samples is cut into {} gradient shards; fewer shards, larger batches or drop_last would fit",
                runs.shards()
            )));
        }
        let parts = self.host_parts(epoch, start, runs.shards(), runs.of(worker));
        Ok(DeviceBatches::new(parts, device, self.double_buffer))
    }
    /// What tells this data and its order from others: sizes, and a digest of the first batch.
    ///
    /// # Errors
    /// Those of the data set.
    pub fn fingerprint(&self) -> Result<String> {
        let sizes = (self.data.len(), self.batches(), self.batch_size);
        let first = self.host_epoch(0, 0).next().transpose()?;
        let hash = first.map_or_else(String::new, |b| {
            let (x, y) = b.data;
            weights_hash(&BTreeMap::from([("x".to_owned(), x), ("y".to_owned(), y)]))
        });
        Ok(format!("{sizes:?} {hash}"))
    }
}

/// The batches of an epoch, in host memory. Dropping it stops the worker threads.
pub struct Batches<T>(BatchSource<T>);

enum BatchSource<T> {
    Here { range: Range<usize>, make: Make<HostBatch<T>> },
    Ahead(Ahead<HostBatch<T>>),
    Refused(Option<Error>),
}

impl<T> fmt::Debug for Batches<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}

impl<T> Iterator for Batches<T> {
    type Item = Result<HostBatch<T>>;
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            BatchSource::Here { range, make } => {
                let i = range.next()?;
                Some(guarded(|| make(i, &AtomicBool::new(false))))
            }
            BatchSource::Ahead(ahead) => ahead.next(),
            BatchSource::Refused(e) => e.take().map(Err),
        }
    }
}

/// A data set that fails once its batch is no longer needed.
struct Watched<'a, D> {
    data: &'a D,
    stop: &'a AtomicBool,
}

impl<D: Dataset> Dataset for Watched<'_, D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        self.data.len()
    }
    fn get(&self, i: usize) -> Result<D::Item> {
        if self.stop.load(Ordering::Acquire) {
            // Never seen: the iterator is dropped.
            return Err(Error::argument("loader: the batch is not wanted any more"));
        }
        exists(i, self.len())?;
        self.data.get(i)
    }
    fn stacked(&self, samples: &[usize]) -> Option<Result<<D::Item as Stackable>::Batch>>
    where
        D::Item: Stackable,
    {
        self.data.stacked(samples)
    }
}
