//! Sums over gradient shards, of tensors that stay on their device as long as one worker has all
//! shards, or their devices have a way to each other, and go through host memory otherwise. The
//! bits are the same: a sum of two numbers is.

use elinvar_core::{DType, Error, HostData, HostTensor, Result, Scalar, Shape};
use elinvar_distributed::tree::Node;
use elinvar_distributed::{Group, Number, Runs, Shares, TreeSum};
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{add, concat, mul, narrow};
use elinvar_ops::{Backend, Value};
use elinvar_tensor::Tensor;
use std::collections::BTreeMap;

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
    pub(super) fn plus(self, right: Slot<B>) -> Result<Slot<B>> {
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

    /// A slot, which has no value here from now on; it is counted as before.
    pub(super) fn take(&mut self, slot: usize) -> Slot<B> {
        let here = &mut self.slots[slot];
        Slot { shape: here.shape.clone(), dtype: here.dtype, value: here.value.take() }
    }
}

/// Sums over all workers that were made before the others: by slot; None if it is another worker's.
pub(super) type Sent<B> = BTreeMap<usize, Option<Array<B>>>;

/// How sums go over all workers.
pub(super) struct Wire<'w, B: Backend> {
    pub group: &'w Group,
    pub runs: Runs,
    /// Of the first slots each worker gets its own share only, if there are shares.
    pub shares: Option<&'w Shares>,
    pub device: &'w B::Device,
}

impl<B: Backend> Wire<'_, B> {
    /// The sums over the shards of all workers, from those of this one, and from what was sent
    /// before.
    pub(super) fn all(&self, mine: TreeSum<SlotSums<B>>, sent: Sent<B>) -> Result<SlotSums<B>> {
        let nodes = mine.into_nodes();
        let n = nodes[0].1.counts.len();
        let counts = self.sum(&nodes, n, None, |one| Ok(one.counts.clone()))?;
        let mut slots: Vec<Slot<B>> = nodes[0].1.slots.clone();
        let shared = self.shares.map_or(0, Shares::total);
        let is_there = |i: usize| counts.get(i + 1).is_some_and(|n| *n > 0);
        for (dtype, is_shared) in
            [DType::F32, DType::F64, DType::I64, DType::I32].into_iter().flat_map(|t| [(t, true), (t, false)])
        {
            let is_of = |i: usize| {
                (i < shared) == is_shared && slots[i].dtype == dtype && is_there(i) && !sent.contains_key(&i)
            };
            let of: Vec<usize> = (0..slots.len()).filter(|&i| is_of(i)).collect();
            if of.is_empty() {
                continue;
            }
            let some = |one: &SlotSums<B>| of.iter().map(|&i| one.slots[i].clone()).collect();
            let nodes: Vec<_> = nodes.iter().map(|(node, one)| (*node, some(one))).collect();
            for (i, sum) in of.iter().zip(self.slots(&of, &nodes)?) {
                slots[*i].value = sum;
            }
        }
        for (i, sum) in sent {
            slots[i].value = sum.filter(|_| is_there(i));
        }
        Ok(SlotSums { counts, slots })
    }

    /// The sums of slots of one dtype, in one message to each worker: these, in ascending order, of
    /// each subtree of this worker. Either all have shares or none.
    pub(super) fn slots(
        &self,
        of: &[usize],
        nodes: &[(Node, Vec<Slot<B>>)],
    ) -> Result<Vec<Option<Array<B>>>> {
        let slots = &nodes[0].1;
        let shares = self.shares.filter(|shares| of.first().is_some_and(|i| *i < shares.total()));
        let length = |i: usize| of.binary_search(&i).map_or(0, |k| slots[k].shape.numel());
        let cut = shares.map(|shares| shares.elements(length));
        let own = shares.map(|shares| shares.of(self.group.rank()));
        let is_here = |i: &usize| own.as_ref().is_none_or(|own| own.contains(i));
        let n = slots.iter().map(|slot| slot.shape.numel()).sum();
        let Some(dtype) = slots.first().map(|slot| slot.dtype) else { return Ok(vec![]) };
        if self.group.is_linked::<B>(self.device) {
            let sum = self.on_devices(nodes, n, cut.as_ref(), dtype)?;
            let mut at = 0;
            let mut one = |(i, slot): (&usize, &Slot<B>)| {
                if !is_here(i) {
                    return Ok(None);
                }
                let length = slot.shape.numel();
                let here = narrow(&sum, 0, at as isize, length)?;
                at += length;
                here.reshape(&slot.shape).map(Some)
            };
            return of.iter().zip(slots).map(&mut one).collect();
        }
        // -0 + x is x for every x, as nothing is.
        macro_rules! all {
            ($v:ident, $nothing:expr) => {{
                let flat = |some: &Vec<Slot<B>>| {
                    let mut all = Vec::with_capacity(n);
                    for slot in some {
                        let host = slot.value.as_ref().map(Array::to_host).transpose()?;
                        match host.map(HostTensor::into_data) {
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
                let sum = self.sum(nodes, n, cut.as_ref(), flat)?;
                let mut rest = &sum[..];
                let mut one = |(i, slot): (&usize, &Slot<B>)| {
                    if !is_here(i) {
                        return Ok(None);
                    }
                    let (here, more) = rest.split_at(slot.shape.numel());
                    rest = more;
                    let host = HostTensor::from_vec(here.to_vec(), slot.shape.clone())?;
                    let device = slot.value.as_ref().map_or(self.device, Array::device);
                    Array::from_host(device, host).map(Some)
                };
                of.iter().zip(slots).map(&mut one).collect()
            }};
        }
        match dtype {
            DType::F32 => all!(F32, -0.0),
            DType::F64 => all!(F64, -0.0),
            DType::I64 => all!(I64, 0),
            _ => all!(I32, 0),
        }
    }

    /// The sum of slots of one dtype, one after the other, from device to device.
    fn on_devices(
        &self,
        nodes: &[(Node, Vec<Slot<B>>)],
        n: usize,
        cut: Option<&Shares>,
        dtype: DType,
    ) -> Result<Array<B>> {
        // As in host memory.
        let nothing = if dtype.is_float() { Scalar::Float(-0.0) } else { Scalar::Int(0) };
        let flat = |slot: &Slot<B>| {
            let shape = Shape::new(&[slot.shape.numel()])?;
            match &slot.value {
                Some(x) if x.dtype() != dtype => {
                    Err(Error::dtype(format!("train: a sum of {dtype} is {}", x.dtype())))
                }
                Some(x) => x.reshape(&shape),
                None => Array::full(self.device, &shape, nothing, dtype),
            }
        };
        let mut sums = TreeSum::new(self.runs.of(self.group.rank()).start);
        for (node, some) in nodes {
            let all = some.iter().map(flat).collect::<Result<Vec<_>>>()?;
            let all = concat(&all.iter().collect::<Vec<_>>(), 0)?;
            sums.push_node(*node, all, |_, _| Err(Error::argument("subtrees of a worker are apart")))?;
        }
        match cut {
            None => self.group.all_reduce_arrays(self.runs, sums, n),
            Some(cut) => self.group.reduce_scatter_array_shares(self.runs, sums, cut),
        }
    }
    /// The sum of flat vectors.
    fn sum<S, T: Number>(
        &self,
        nodes: &[(Node, S)],
        n: usize,
        cut: Option<&Shares>,
        flat: impl Fn(&S) -> Result<Vec<T>>,
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

/// In the dtype in which sums are made.
pub(super) fn wide<B: Backend>(x: &Tensor<B>) -> Result<Array<B>> {
    x.array().cast(x.dtype().compute())
}
