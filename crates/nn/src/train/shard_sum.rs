//! Sums over gradient shards, of tensors that stay on their device as long as one worker has all
//! shards, and go through host memory otherwise. The bits are the same: a sum of two numbers is.

use elinvar_core::{DType, Error, HostData, HostTensor, Result, Shape};
use elinvar_distributed::{Group, Number, Runs, Shares, TreeSum};
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{add, mul};
use elinvar_ops::{Backend, Value};
use elinvar_tensor::Tensor;

/// A place for a tensor of which there are sums. Nothing is not zero: a sum with it has the other
/// term's bits.
#[derive(Clone, Debug)]
pub(super) struct Slot<B: Backend> {
    shape: Shape,
    dtype: DType,
    value: Option<Array<B>>,
}

impl<B: Backend> Slot<B> {
    pub(super) fn new(shape: &Shape, dtype: DType, value: Option<Array<B>>) -> Self {
        Slot { shape: shape.clone(), dtype, value }
    }
    fn plus(self, right: Slot<B>) -> Result<Slot<B>> {
        if (&self.shape, self.dtype) != (&right.shape, right.dtype) {
            return Err(Error::shape(format!(
                "train: a gradient shard has {} {} where another one has {} {}",
                self.dtype, self.shape, right.dtype, right.shape
            )));
        }
        let value = match (&self.value, &right.value) {
            (Some(a), Some(b)) => Some(add(a, b)?),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        Ok(Slot { value, ..self })
    }
    /// Is its sum this worker's?
    pub(super) fn is_here(&self) -> bool {
        self.value.is_some()
    }
    fn value(&self) -> Result<&Array<B>> {
        self.value
            .as_ref()
            .ok_or_else(|| Error::argument("train: a sum over shards of which none has a term"))
    }
    pub(super) fn times(&self, factor: f64) -> Result<Array<B>> {
        let x = self.value()?;
        mul(x, &x.scalar_like(factor)?)
    }
    pub(super) fn tensor(&self) -> Result<Tensor<B>> {
        self.value().map(|x| Tensor::from_array(x.clone()))
    }
}

/// The sums of some shards.
#[derive(Clone, Debug)]
pub(super) struct SlotSums<B: Backend> {
    /// Samples; then for each slot the shards that have a term.
    counts: Vec<i64>,
    slots: Vec<Slot<B>>,
}

impl<B: Backend> SlotSums<B> {
    pub(super) fn of(samples: usize, slots: Vec<Slot<B>>) -> Self {
        let present = slots.iter().map(|s| i64::from(s.value.is_some()));
        SlotSums { counts: [samples as i64].into_iter().chain(present).collect(), slots }
    }
    pub(super) fn plus(left: Self, right: Self) -> Result<Self> {
        if left.slots.len() != right.slots.len() {
            return Err(Error::argument("train: gradient shards differ in parameters, buffers or metrics"));
        }
        let counts = left.counts.iter().zip(&right.counts).map(|(a, b)| a + b).collect();
        let slots = left.slots.into_iter().zip(right.slots).map(|(a, b)| a.plus(b)).collect::<Result<_>>()?;
        Ok(SlotSums { counts, slots })
    }
    pub(super) fn samples(&self) -> usize {
        self.counts[0] as usize
    }
    /// Each slot with the number of shards that have a term there.
    pub(super) fn slots(&self) -> impl Iterator<Item = (&Slot<B>, i64)> {
        self.slots.iter().zip(self.counts[1..].iter().copied())
    }

    /// The sums over the shards of all workers, from those of this one. Of the first slots,
    /// those of `shares`, each worker gets its own share only.
    pub(super) fn of_all(
        group: &Group,
        runs: Runs,
        mine: TreeSum<Self>,
        shares: Option<&Shares>,
        device: &B::Device,
    ) -> Result<SlotSums<B>> {
        let nodes = mine.into_nodes();
        let wire = Wire { group, runs };
        let n = nodes[0].1.counts.len();
        let counts = wire.sum(&nodes, n, None, |one| Ok(one.counts.clone()))?;
        let mut slots: Vec<Slot<B>> = nodes[0].1.slots.clone();
        let shared = shares.map_or(0, Shares::total);
        for (dtype, is_shared) in
            [DType::F32, DType::F64, DType::I64, DType::I32].into_iter().flat_map(|t| [(t, true), (t, false)])
        {
            let is_of = |i: usize| {
                (i < shared) == is_shared
                    && slots[i].dtype == dtype
                    && counts.get(i + 1).is_some_and(|n| *n > 0)
            };
            let of: Vec<usize> = (0..slots.len()).filter(|&i| is_of(i)).collect();
            if of.is_empty() {
                continue;
            }
            let length = |i: usize| if is_of(i) { slots[i].shape.numel() } else { 0 };
            let cut = shares.filter(|_| is_shared).map(|shares| shares.elements(length));
            let own = shares.filter(|_| is_shared).map(|shares| shares.of(group.rank()));
            let n = of.iter().map(|&i| slots[i].shape.numel()).sum();
            // -0 + x is x for every x, as nothing is.
            macro_rules! all {
                ($v:ident, $nothing:expr) => {{
                    let flat = |one: &SlotSums<B>| {
                        let mut all = Vec::with_capacity(n);
                        for slot in of.iter().map(|&i| &one.slots[i]) {
                            match slot
                                .value
                                .as_ref()
                                .map(Array::to_host)
                                .transpose()?
                                .map(HostTensor::into_data)
                            {
                                Some(HostData::$v(x)) => all.extend_from_slice(&x),
                                None => all.resize(all.len() + slot.shape.numel(), $nothing),
                                Some(other) => {
                                    return Err(Error::dtype(format!(
                                        "train: a sum of {dtype} is {}",
                                        other.dtype()
                                    )));
                                }
                            }
                        }
                        Ok(all)
                    };
                    let sum = wire.sum(&nodes, n, cut.as_ref(), flat)?;
                    let mut rest = &sum[..];
                    for &i in &of {
                        if own.as_ref().is_some_and(|own| !own.contains(&i)) {
                            slots[i].value = None;
                            continue;
                        }
                        let (here, more) = rest.split_at(slots[i].shape.numel());
                        rest = more;
                        let host = HostTensor::from_vec(here.to_vec(), slots[i].shape.clone())?;
                        let device = slots[i].value.as_ref().map_or(device, Array::device).clone();
                        slots[i].value = Some(Array::from_host(&device, host)?);
                    }
                }};
            }
            match dtype {
                DType::F32 => all!(F32, -0.0),
                DType::F64 => all!(F64, -0.0),
                DType::I64 => all!(I64, 0),
                _ => all!(I32, 0),
            }
        }
        Ok(SlotSums { counts, slots })
    }
}

/// How sums of flat vectors are made.
struct Wire<'g> {
    group: &'g Group,
    runs: Runs,
}

impl Wire<'_> {
    fn sum<B: Backend, T: Number>(
        &self,
        nodes: &[(elinvar_distributed::tree::Node, SlotSums<B>)],
        n: usize,
        cut: Option<&Shares>,
        flat: impl Fn(&SlotSums<B>) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        let mut sums = TreeSum::new(self.runs.of(self.group.rank()).start);
        for (node, one) in nodes {
            sums.push_node(*node, flat(one)?, |_, _| Err(Error::argument("subtrees of a worker are apart")))?;
        }
        match cut {
            None => self.group.all_reduce_shards(self.runs, sums, n),
            Some(cut) => self.group.reduce_scatter_shares(self.runs, sums, cut),
        }
    }
}
