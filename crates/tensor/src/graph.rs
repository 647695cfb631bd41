//! `Graph`: graph capture. A function of tensors whose device work is recorded once and replayed.

use crate::autocast::{autocast_dtype, isolated};
use crate::{Tensor, try_run};
use elinvar_core::{DType, Error, ErrorKind, Precision, Result, Shape, profile};
use elinvar_ops::array::Array;
use elinvar_ops::backend::Backend;
use elinvar_ops::recording::{Watch, observe};
use std::fmt;
use std::sync::{Mutex, PoisonError};

type Function<B> = dyn Fn(&[Tensor<B>]) -> Result<Vec<Tensor<B>>> + Send + Sync;

/// A function of tensors whose device work was recorded, so that replaying it has little overhead
/// on the host: on a GPU, hundreds of kernel launches become one. Results have the bits of the
/// function on every backend; a backend without a queue (`cpu`) calls the function.
///
/// Captured values may change between two runs: when a weight, a buffer or a mode of a module has
/// been replaced, the function is recorded again. (An optimiser updates weights in place, which
/// needs no new recording.) The function may only compute: reading elements on the host, drawing
/// from a module's random numbers, changing a parameter, and keeping tensors that it does not
/// return are errors. Gradients may be computed in it. It runs in the scopes of precision and of
/// [`crate::autocast`] in which it was recorded, whichever a run is in.
///
/// ```
/// use elinvar_core::Result;
/// use elinvar_reference::ReferenceDevice as Device;
/// use elinvar_tensor::{Graph, Tensor};
///
/// let w = Tensor::new([[2.0f32], [-1.0]], &Device);
/// let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], &Device);
/// let graph = Graph::record(&[&x], move |x| Ok(vec![x[0].matmul(&w).sigmoid()]))?;
/// let y = graph.run(&[&(x * 2.0)])?;
/// assert_eq!(y[0].dims(), [2, 1]);
/// assert_eq!(y[0].to_vec::<f32>()?[0], 0.5);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub struct Graph<B: Backend> {
    device: B::Device,
    inputs: Vec<(Shape, DType)>,
    /// The scopes in which it was recorded, which a run's do not replace.
    precision: Option<Precision>,
    half: Option<DType>,
    function: Box<Function<B>>,
    recorded: Mutex<Option<Recorded<B>>>,
}

/// A recording of the function.
struct Recorded<B: Backend> {
    /// `None`: this backend calls the function.
    work: Option<B::Graph>,
    inputs: Vec<Array<B>>,
    outputs: Vec<Array<B>>,
    watches: Vec<Watch>,
}

impl<B: Backend> Graph<B> {
    /// Records a function, for inputs of the shapes, dtypes and device of these.
    ///
    /// # Errors
    /// `InvalidArgument` without inputs, or if the function keeps tensors that it does not return;
    /// `DeviceMismatch` if the inputs are on several devices; `Unsupported` if it does more than
    /// compute; the function's own errors; `OutOfMemory`.
    pub fn record(
        inputs: &[&Tensor<B>],
        function: impl Fn(&[Tensor<B>]) -> Result<Vec<Tensor<B>>> + Send + Sync + 'static,
    ) -> Result<Graph<B>> {
        let Some(first) = inputs.first() else {
            return Err(Error::argument(
                "graph: a function without inputs gives the same results every time",
            ));
        };
        let graph = Graph {
            device: first.device().clone(),
            inputs: inputs.iter().map(|x| (x.shape().clone(), x.dtype())).collect(),
            precision: Precision::of_scope(),
            half: autocast_dtype(),
            function: Box::new(function),
            recorded: Mutex::new(None),
        };
        graph.check(inputs)?;
        let recorded = graph.again(inputs, &[])?;
        *graph.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(recorded);
        Ok(graph)
    }
    /// The function's results for other inputs. They are not tracked (see [`Tensor::detach`]).
    ///
    /// # Errors
    /// `InvalidArgument`, `ShapeMismatch`, `DTypeMismatch`, `DeviceMismatch` if the inputs do not
    /// match those of the recording; those of [`Graph::record`], if it is recorded again.
    pub fn run(&self, inputs: &[&Tensor<B>]) -> Result<Vec<Tensor<B>>> {
        let _span = profile::span("graph");
        self.check(inputs)?;
        // The value is consistent even if the lock is poisoned. The lock is held until all work is
        // submitted to the device, which fixes its order.
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*recorded
            && let Some(results) = known.run(self, inputs)?
        {
            return Ok(results);
        }
        let before = recorded.take().map_or_else(Vec::new, |r| r.inputs);
        let new = recorded.insert(self.again(inputs, &before)?);
        let results = new.run(self, inputs)?;
        results.ok_or_else(|| Error::unsupported("graph: what the function reads changes while it runs"))
    }

    /// Calls the function under the rules of recording.
    fn call(&self, inputs: &[Tensor<B>]) -> Result<(Vec<Array<B>>, Vec<Watch>)> {
        // Methods of tensors panic with their errors.
        // Conversions of weights that were made outside would be constants of the recording.
        let run = || isolated(self.half, || try_run(|| (self.function)(inputs))?);
        let (results, watches) = observe(|| Precision::scope_of(self.precision, run))?;
        Ok((results.iter().map(|y| y.array().clone()).collect(), watches))
    }
    /// Records the function again. `before`: the inputs of the invalid recording.
    fn again(&self, given: &[&Tensor<B>], before: &[Array<B>]) -> Result<Recorded<B>> {
        let plain = || self.call(&given.iter().map(|x| x.detach()).collect::<Vec<_>>());
        let recorded = self.try_again(given, before);
        match &recorded {
            // Forbidden operations are also detected on backends that call the function.
            Ok(new) if new.work.is_none() => {
                plain()?;
            }
            // If the function itself fails for these inputs (an index out of range), that is the
            // better error.
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                plain()?;
            }
            Ok(_) | Err(_) => {}
        }
        recorded
    }
    fn try_again(&self, given: &[&Tensor<B>], before: &[Array<B>]) -> Result<Recorded<B>> {
        let mut new = Recorded { work: None, inputs: Vec::new(), outputs: Vec::new(), watches: Vec::new() };
        new.work = B::record(&self.device, &mut |keep| {
            for (i, x) in given.iter().enumerate() {
                let before = before.get(i).map(Array::buffer);
                let buffer = B::input(&self.device, x.array().view(), before)?;
                new.inputs.push(Array::new(&self.device, buffer, x.shape().clone(), x.dtype()));
            }
            let inputs: Vec<Tensor<B>> = new.inputs.iter().cloned().map(Tensor::from_array).collect();
            (new.outputs, new.watches) = self.call(&inputs)?;
            new.outputs.iter().try_for_each(|y| keep(y.buffer()))
        })?;
        let of_input = |y: &&Array<B>| new.inputs.iter().any(|x| x.shares_memory_with(y));
        let all: Vec<&Array<B>> = new.inputs.iter().chain(new.outputs.iter().filter(of_input)).collect();
        if Array::is_held_besides(&all) {
            return Err(Error::argument("graph: the function keeps one of its inputs, which will change"));
        }
        Ok(new)
    }
    fn check(&self, inputs: &[&Tensor<B>]) -> Result<()> {
        if inputs.len() != self.inputs.len() {
            return Err(Error::argument(format!(
                "graph: {} inputs, and it was recorded for {}",
                inputs.len(),
                self.inputs.len()
            )));
        }
        for (i, (x, (shape, dtype))) in inputs.iter().zip(&self.inputs).enumerate() {
            if x.shape() != shape {
                return Err(Error::shape(format!(
                    "graph: input {i} has shape {}, and it was recorded for {shape}",
                    x.shape()
                )));
            }
            if x.dtype() != *dtype {
                return Err(Error::dtype(format!(
                    "graph: input {i} is of {}, and it was recorded for {dtype}",
                    x.dtype()
                )));
            }
            if *x.device() != self.device {
                return Err(Error::new(
                    ErrorKind::DeviceMismatch,
                    format!("graph: input {i} is on {}, and the graph on {}", x.device(), self.device),
                ));
            }
        }
        Ok(())
    }
}

impl<B: Backend> Recorded<B> {
    /// The results; `None` if this recording is no longer valid.
    fn run(&self, graph: &Graph<B>, given: &[&Tensor<B>]) -> Result<Option<Vec<Tensor<B>>>> {
        let Some(work) = &self.work else {
            let inputs: Vec<Tensor<B>> = given.iter().map(|x| x.detach()).collect();
            let (results, _) = graph.call(&inputs)?;
            return Ok(Some(results.into_iter().map(Tensor::from_array).collect()));
        };
        if !self.watches.iter().all(|same| same()) {
            return Ok(None);
        }
        let inputs: Vec<_> =
            given.iter().zip(&self.inputs).map(|(x, to)| (x.array().view(), to.buffer())).collect();
        if !B::replay(&graph.device, work, &inputs)? {
            return Ok(None);
        }
        // Copies, because the next run overwrites the outputs.
        let results = self.outputs.iter().map(|y| Ok(Tensor::from_array(y.copy()?)));
        results.collect::<Result<_>>().map(Some)
    }
}

impl<B: Backend> fmt::Debug for Graph<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({} inputs, {})", self.inputs.len(), self.device)
    }
}
