//! `Ema`: running averages of a module's weights, which often generalise better than the weights
//! themselves.

use crate::module::StateDict;
use crate::reads::Reader;
use crate::{Module, Param};
use elinvar_core::{Error, HostTensor, Result, Scalar, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::lane::Lane;
use elinvar_ops::update::{Part, Update, update};
use elinvar_tensor::Tensor;
use std::collections::BTreeMap;

/// How weights are averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Average {
    /// average = decay * average + (1 - decay) * weight, decay in 0..=1.
    Exponential {
        /// The decay of the average.
        decay: f64,
    },
    /// The mean of the weights of all updates, for stochastic weight averaging.
    Equal,
}

/// The treatment of float buffers (running statistics). Buffers of other types are always copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferAverage {
    /// Copied from the last update.
    Copied,
    /// Averaged like the weights.
    Averaged,
}

/// Running averages of a module's weights. The first update copies them.
///
/// Averages of weights of storage floats are kept in f32, where small updates are not rounded away.
///
/// ```
/// # use elinvar_nn::{Backend, Module};
/// # use elinvar_nn::ema::{Average, BufferAverage, Ema};
/// # fn train<B: Backend>(model: &dyn Module<B>) -> elinvar_core::Result<()> {
/// let mut ema = Ema::new(Average::Exponential { decay: 0.999 }, BufferAverage::Copied)?;
/// // After each step of the optimiser:
/// ema.update(model)?;
/// // To evaluate with the averages, and to go on with the weights:
/// ema.apply(model)?;
/// ema.restore(model)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Ema<B: Backend> {
    average: Average,
    buffers: BufferAverage,
    updates: u64,
    averages: BTreeMap<String, Array<B>>,
    /// The weights that the averages replace at the moment.
    weights: Option<BTreeMap<String, Tensor<B>>>,
}

/// average + (weight - average) * part, of average by (weight, part).
#[derive(Clone, Copy, Debug)]
struct Toward;

impl Update<1, 2> for Toward {
    const NAME: &'static str = "ema";
    #[inline(always)]
    fn lane<L: Lane>(&self, [average]: [L; 1], [weight, part]: [L; 2]) -> [L; 1] {
        [(weight - average).fma(part, average)]
    }
}
elinvar_ops::compile_update! { 1 2 Toward; }

/// A weight or a buffer.
struct Leaf<'a, B: Backend> {
    name: String,
    value: Tensor<B>,
    is_averaged: bool,
    set: Box<dyn Fn(&Tensor<B>) -> Result<()> + 'a>,
}

/// Number of updates, by PyTorch's name.
const UPDATES: &str = "n_averaged";
/// The prefix of PyTorch's names of averages.
const PREFIX: &str = "module.";

impl<B: Backend> Ema<B> {
    /// No averages yet.
    ///
    /// # Errors
    /// `InvalidArgument` if the decay is not in 0..=1.
    pub fn new(average: Average, buffers: BufferAverage) -> Result<Self> {
        if let Average::Exponential { decay } = average
            && !(0.0..=1.0).contains(&decay)
        {
            return Err(Error::argument(format!("ema: decay is {decay}, and should be in 0..=1")));
        }
        Ok(Ema { average, buffers, updates: 0, averages: BTreeMap::new(), weights: None })
    }
    /// Number of updates so far.
    pub fn updates(&self) -> u64 {
        self.updates
    }
    fn leaves<'a>(&self, module: &'a dyn Module<B>) -> Vec<Leaf<'a, B>> {
        let all = module.leaves();
        let params = all.unique().into_iter().map(|(name, p): (String, &'a Param<B>)| Leaf {
            name,
            value: p.get(),
            is_averaged: true,
            set: Box::new(|v| p.set(v)),
        });
        let averaged = self.buffers == BufferAverage::Averaged;
        let buffers = all.buffers.iter().map(|(name, b)| {
            let (b, value) = (*b, b.get());
            let is_averaged = averaged && value.dtype().is_float();
            Leaf { name: name.clone(), value, is_averaged, set: Box::new(|v| b.set(v)) }
        });
        params.chain(buffers).collect()
    }
    /// Updates the averages with the module's weights. After an error they are unchanged.
    ///
    /// # Errors
    /// `InvalidArgument` if the averages are applied to the module, or its parts have changed since
    /// the last update; `ShapeMismatch`, `OutOfMemory`, what the device reports.
    pub fn update(&mut self, module: &dyn Module<B>) -> Result<()> {
        let place = |e: Error| e.at("ema");
        if self.weights.is_some() {
            return Err(place(Error::argument(
                "the module holds the averages now; call restore before the next step",
            )));
        }
        let leaves = self.leaves(module);
        if self.updates > 0 {
            self.same_names(&leaves).map_err(place)?;
        }
        let part = match self.average {
            Average::Exponential { decay } => 1.0 - decay,
            Average::Equal => 1.0 / (self.updates as f64 + 1.0),
        };
        // Everything that can fail except the update itself: copies, and the targets of the
        // averages.
        let (mut copies, mut towards) = (BTreeMap::new(), BTreeMap::new());
        for leaf in &leaves {
            self.prepare(leaf, part, &mut copies, &mut towards).map_err(|e| place(e.at(&leaf.name)))?;
        }
        let mut parts = vec![];
        for (name, average) in &mut self.averages {
            if let Some((value, part)) = towards.get(name.as_str()) {
                parts.push(Part::new([average], [value.array(), part]));
            }
        }
        update(&Toward, &mut parts).map_err(place)?;
        self.averages.extend(copies);
        self.updates += 1;
        Ok(())
    }
    /// Prepares the update of a leaf: a copy, or the target of its average on its device and in its
    /// type.
    fn prepare<'a>(
        &mut self,
        leaf: &'a Leaf<'_, B>,
        part: f64,
        copies: &mut BTreeMap<String, Array<B>>,
        towards: &mut BTreeMap<&'a str, (&'a Tensor<B>, Array<B>)>,
    ) -> Result<()> {
        let value = leaf.value.array();
        let wide = if leaf.is_averaged { value.dtype().compute() } else { value.dtype() };
        let Some(average) = self.averages.get_mut(&leaf.name).filter(|_| leaf.is_averaged) else {
            copies.insert(leaf.name.clone(), value.cast(wide)?);
            return Ok(());
        };
        if average.shape() != value.shape() {
            return Err(Error::shape(format!(
                "the average has shape {}, and the weight {}",
                average.shape(),
                value.shape()
            )));
        }
        if average.device() != value.device() {
            *average = Array::from_host(value.device(), average.to_host()?)?;
        }
        *average = average.cast(wide)?;
        let part = Array::scalar(value.device(), Scalar::Float(part), wide)?;
        towards.insert(&leaf.name, (&leaf.value, part));
        Ok(())
    }
    fn same_names(&self, leaves: &[Leaf<'_, B>]) -> Result<()> {
        let lacks = leaves.iter().find(|l| !self.averages.contains_key(&l.name));
        if let Some(leaf) = lacks {
            return Err(Error::argument(format!("there is no average of \"{}\"", leaf.name)));
        }
        let left = self.averages.keys().find(|n| leaves.iter().all(|l| l.name != **n));
        left.map_or(Ok(()), |n| {
            Err(Error::argument(format!("the module has no \"{n}\", of which there is an average")))
        })
    }
    /// Replaces the module's weights by the averages, and saves the weights. After an error the
    /// module is unchanged.
    ///
    /// # Errors
    /// `InvalidArgument` if the averages are applied already, there are none yet, or the module has
    /// other parts; `ShapeMismatch`, `OutOfMemory`, what the device reports.
    pub fn apply(&mut self, module: &dyn Module<B>) -> Result<()> {
        if self.weights.is_some() {
            return Err(Error::argument("ema: the module holds the averages already"));
        }
        self.weights = Some(self.put(module)?);
        Ok(())
    }
    /// Copies the averages to the module permanently. After an error the module is unchanged.
    ///
    /// # Errors
    /// As [`Ema::apply`].
    pub fn copy_to(&self, module: &dyn Module<B>) -> Result<()> {
        self.put(module).map(|_| ())
    }
    /// Writes the averages to the module; returns the previous values.
    fn put(&self, module: &dyn Module<B>) -> Result<BTreeMap<String, Tensor<B>>> {
        let place = |e: Error| e.at("ema");
        if self.updates == 0 {
            return Err(place(Error::argument("there are no averages before the first update")));
        }
        let leaves = self.leaves(module);
        self.same_names(&leaves).map_err(place)?;
        let mut ready = vec![];
        for leaf in &leaves {
            let average = &self.averages[&leaf.name];
            if average.shape() != leaf.value.shape() {
                return Err(place(Error::shape(format!(
                    "{}: the average has shape {}, and the weight {}",
                    leaf.name,
                    average.shape(),
                    leaf.value.shape()
                ))));
            }
            let average = average.cast(leaf.value.dtype()).map_err(place)?;
            ready.push(Tensor::from_array(average).copy_to::<B>(leaf.value.device()).map_err(place)?);
        }
        leaves.iter().zip(&ready).try_for_each(|(leaf, new)| (leaf.set)(new)).map_err(place)?;
        Ok(leaves.into_iter().map(|leaf| (leaf.name, leaf.value)).collect())
    }
    /// Restores the weights that [`Ema::apply`] replaced.
    ///
    /// # Errors
    /// `InvalidArgument` if the averages are not applied, or the module has other parts.
    pub fn restore(&mut self, module: &dyn Module<B>) -> Result<()> {
        let place = |e: Error| e.at("ema");
        let Some(weights) = &self.weights else {
            return Err(place(Error::argument(
                "there is nothing to restore; apply puts the averages into a module",
            )));
        };
        let leaves = self.leaves(module);
        self.same_names(&leaves).map_err(place)?;
        leaves.iter().try_for_each(|leaf| (leaf.set)(&weights[&leaf.name])).map_err(place)?;
        self.weights = None;
        Ok(())
    }
    /// The averages on the host, with the names of PyTorch's `AveragedModel`: `n_averaged`, and
    /// each as `module.NAME`. Waits for the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn state_dict(&self) -> Result<StateDict> {
        self.state_by(&mut |x| x.to_host())
    }
    pub(crate) fn state_by(&self, read: &mut Reader<'_, B>) -> Result<StateDict> {
        let mut all = StateDict::new();
        all.insert(UPDATES.to_owned(), HostTensor::from_vec(vec![self.updates as i64], Shape::scalar())?);
        for (name, t) in &self.averages {
            all.insert(format!("{PREFIX}{name}"), read(t).map_err(|e| e.at(name).at("ema"))?);
        }
        Ok(all)
    }
    /// Restores saved averages of this module. After an error the averages are unchanged.
    ///
    /// # Errors
    /// `InvalidArgument` if a name is missing or unexpected, or the number of updates is invalid;
    /// `ShapeMismatch` or `DTypeMismatch` with the name; `OutOfMemory`.
    pub fn load_state_dict(&mut self, module: &dyn Module<B>, from: &StateDict) -> Result<()> {
        *self = self.loaded(module, from)?;
        Ok(())
    }
    /// The averages that [`Ema::load_state_dict`] replaces these by.
    pub(crate) fn loaded(&self, module: &dyn Module<B>, from: &StateDict) -> Result<Self> {
        let place = |e: Error| e.at("load_state_dict").at("ema");
        let updates = from.get(UPDATES).filter(|t| t.shape().numel() == 1).map(|t| t.to_f64_vec()[0]);
        // 2^53: f64 represents every integer up to there.
        let updates = updates.filter(|n| n.fract() == 0.0 && (0.0..=9007199254740992.0).contains(n));
        let Some(updates) = updates else {
            return Err(place(Error::argument(format!("{UPDATES} should be a number of updates"))));
        };
        let mut next = Ema { updates: updates as u64, averages: BTreeMap::new(), ..self.clone() };
        let leaves = if updates > 0.0 { self.leaves(module) } else { vec![] };
        for leaf in &leaves {
            let name = &leaf.name;
            let Some(t) = from.get(&format!("{PREFIX}{name}")) else {
                return Err(place(Error::argument(format!("there is no average of \"{name}\""))));
            };
            if t.shape() != leaf.value.shape() {
                let (is, should) = (t.shape(), leaf.value.shape());
                return Err(place(Error::shape(format!("{name} has shape {is}, and should have {should}"))));
            }
            let dtype = leaf.value.dtype();
            let kept = if leaf.is_averaged { dtype.compute() } else { dtype };
            if t.dtype() != kept && t.dtype() != dtype {
                return Err(place(Error::dtype(format!("{name} is {}, and should be {kept}", t.dtype()))));
            }
            let t = Array::from_host(leaf.value.device(), t.clone()).and_then(|t| t.cast(kept));
            next.averages.insert(name.clone(), t.map_err(place)?);
        }
        if let Some(name) = from
            .keys()
            .find(|k| *k != UPDATES && k.strip_prefix(PREFIX).is_none_or(|n| !next.averages.contains_key(n)))
        {
            return Err(place(Error::argument(format!("the module has no \"{name}\""))));
        }
        Ok(next)
    }
}
