//! `GradScaler`: losses multiplied by a number so that gradients in f16 do not vanish.
//!
//! The number, and whether gradients are finite, live on the device: scaling, dividing, skipping a
//! step and changing the number do not wait for it. The optimiser alone reads one bool, a step
//! later, for its count of steps (see [`Optimizer::step_some`]).
//!
//! How it can be wrong: gradients that are divided twice, or not at all. So a scaler knows the
//! variables whose gradients it has divided since the last [`GradScaler::update`].

use super::Optimizer;
use super::clip::{NormType, total, with_gradients};
use crate::own::own;
use crate::{Module, Param};
use elinvar_core::{DType, Error, Result, Scalar};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{isfinite, logical_not, logical_or};
use elinvar_ops::lane::Lane;
use elinvar_ops::recording::Place;
use elinvar_ops::update::{Part, Update, update};
use elinvar_tensor::{Gradients, Tensor};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Scales losses, and skips steps whose gradients are not finite: for autocast to f16, whose least
/// normal number is 2^-14. PyTorch's `torch.amp.GradScaler`.
///
/// ```
/// use elinvar_core::DType;
/// use elinvar_nn::optim::{GradScaler, Sgd, clip_grad_norm};
/// use elinvar_nn::{Param, Tensor};
/// use elinvar_reference::Reference;
/// use elinvar_tensor::autocast;
///
/// let w: Param<Reference> = Param::new(Tensor::from([[1.0f32], [2.0]]));
/// let x = Tensor::from([[0.5f32, -1.0]]);
/// let mut sgd = Sgd::new(0.1);
/// let mut scaler = GradScaler::new();
/// for _ in 0..3 {
///     let loss = autocast(DType::F16, || x.matmul(&w.get())).sum();
///     let mut gradients = scaler.scale(&loss)?.backward();
///     scaler.unscale(&w, &mut gradients)?; // Only needed to look at them.
///     clip_grad_norm(&w, &mut gradients, 1.0)?;
///     scaler.step(&mut sgd, &w, &mut gradients)?;
///     scaler.update()?;
/// }
/// // 65536 is no number of f16: the first step was skipped, and the scale halved.
/// assert_eq!(scaler.state()?.scale, 32768.0);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct GradScaler<B: Backend> {
    /// The settings, and the state until it is on a device.
    start: ScalerState,
    live: Option<Live<B>>,
    /// What was divided since the last update: the variables, and whether a gradient was not
    /// finite.
    divided: Vec<(BTreeSet<u64>, Array<B>)>,
}

/// The state on the device, each of shape [] in f32.
#[derive(Clone, Debug)]
struct Live<B: Backend> {
    scale: Array<B>,
    /// Steps that were made since the scale has changed.
    tracker: Array<B>,
}

/// The state of a scaler on the host, by PyTorch's names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalerState {
    /// The factor of losses.
    pub scale: f64,
    /// The factor of the scale after `growth_interval` steps that were made.
    pub growth_factor: f64,
    /// The factor of the scale after a step that was skipped.
    pub backoff_factor: f64,
    /// Steps in a row that are made before the scale grows.
    pub growth_interval: u64,
    /// Steps that were made since the scale has changed.
    pub growth_tracker: u64,
}

impl Default for ScalerState {
    fn default() -> Self {
        ScalerState {
            scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            growth_tracker: 0,
        }
    }
}

/// Up to here f32 counts exactly.
const MOST: u64 = 1 << 24;

impl ScalerState {
    /// The error message if a value is out of its range.
    fn fault(&self) -> Option<String> {
        let ScalerState { scale, growth_factor: growth, backoff_factor: backoff, growth_interval: n, .. } =
            *self;
        if !(scale > 0.0 && (scale as f32).is_normal()) {
            return Some(format!("scale is {scale}, and should be a normal number of f32 above 0"));
        }
        if !(growth > 1.0 && growth.is_finite()) {
            return Some(format!("growth_factor is {growth}, and should be above 1"));
        }
        if !(backoff > 0.0 && backoff < 1.0) {
            return Some(format!("backoff_factor is {backoff}, and should be above 0 and below 1"));
        }
        if !(1..=MOST).contains(&n) {
            return Some(format!("growth_interval is {n}, and should be in 1..={MOST}"));
        }
        let seen = self.growth_tracker;
        (seen >= n).then(|| format!("_growth_tracker is {seen}, and should be below growth_interval, {n}"))
    }
    fn check(&self) -> Result<()> {
        self.fault().map_or(Ok(()), |fault| Err(Error::argument(format!("GradScaler: {fault}"))))
    }
    /// PyTorch's `state_dict`.
    pub fn to_json(&self) -> Value {
        json!({
            "scale": self.scale,
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self.growth_tracker,
        })
    }
    /// From PyTorch's `state_dict`.
    ///
    /// # Errors
    /// `Format` if a value is missing or of another kind; `InvalidArgument` if one is out of its
    /// range.
    pub fn from_json(v: &Value) -> Result<Self> {
        let wrong = |name: &str, what: &str| {
            Error::format(format!("GradScaler: {name} of the state is {}, and should be {what}", v[name]))
        };
        let number = |name: &str| v[name].as_f64().ok_or_else(|| wrong(name, "a number"));
        let count = |name: &str| v[name].as_u64().ok_or_else(|| wrong(name, "a whole number"));
        let state = ScalerState {
            scale: number("scale")?,
            growth_factor: number("growth_factor")?,
            backoff_factor: number("backoff_factor")?,
            growth_interval: count("growth_interval")?,
            growth_tracker: count("_growth_tracker")?,
        };
        state.check()?;
        Ok(state)
    }
}

/// g * (1 / scale)
#[derive(Clone, Copy, Debug)]
struct Divide;

impl Update<1, 1> for Divide {
    const NAME: &'static str = "grad_scaler_unscale";
    #[inline(always)]
    fn lane<L: Lane>(&self, [g]: [L; 1], [scale]: [L; 1]) -> [L; 1] {
        [g * (L::lit(1.0) / scale)]
    }
}
elinvar_ops::compile_update! { 1 1 Divide; }

/// The next scale and count of steps, from whether this step was skipped. A scale that would be
/// infinite stays what it is.
#[derive(Clone, Copy, Debug)]
struct Next {
    growth: f64,
    backoff: f64,
    interval: f64,
}

impl Update<2, 1> for Next {
    const NAME: &'static str = "grad_scaler_update";
    #[inline(always)]
    fn lane<L: Lane>(&self, [scale, tracker]: [L; 2], [skipped]: [L; 1]) -> [L; 2] {
        let (zero, seen) = (L::lit(0.0), tracker + L::lit(1.0));
        let grown = scale * L::lit(self.growth);
        let grown = L::select(grown.lt(L::lit(f64::INFINITY)), grown, scale);
        let is_due = seen.eq(L::lit(self.interval));
        let was_made = skipped.eq(zero);
        [
            L::select(was_made, L::select(is_due, grown, scale), scale * L::lit(self.backoff)),
            L::select(was_made, L::select(is_due, zero, seen), zero),
        ]
    }
}
elinvar_ops::compile_update! { 2 1 Next; }

impl<B: Backend> Default for GradScaler<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Backend> GradScaler<B> {
    /// With PyTorch's settings: scale 65536, growth 2 each 2000 steps, backoff 0.5.
    pub fn new() -> Self {
        GradScaler { start: ScalerState::default(), live: None, divided: vec![] }
    }
    /// The first scale, a normal number of f32 above 0.
    #[must_use]
    pub fn init_scale(mut self, scale: f64) -> Self {
        self.start.scale = scale;
        self
    }
    /// The factor of the scale after `growth_interval` steps that were made, above 1.
    #[must_use]
    pub fn growth_factor(mut self, factor: f64) -> Self {
        self.start.growth_factor = factor;
        self
    }
    /// The factor of the scale after a step that was skipped, between 0 and 1.
    #[must_use]
    pub fn backoff_factor(mut self, factor: f64) -> Self {
        self.start.backoff_factor = factor;
        self
    }
    /// Steps in a row that are made before the scale grows: 1 to 2^24.
    #[must_use]
    pub fn growth_interval(mut self, steps: u64) -> Self {
        self.start.growth_interval = steps;
        self
    }

    /// The loss, as f32, times the scale: for the backward pass.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; `DTypeMismatch` if the loss is not of
    /// floats; `OutOfMemory`.
    pub fn scale(&mut self, loss: &Tensor<B>) -> Result<Tensor<B>> {
        self.start.check()?;
        if !loss.dtype().is_float() {
            return Err(Error::dtype(format!("GradScaler: a loss of {}; it should be floats", loss.dtype())));
        }
        let live = match &mut self.live {
            Some(live) => live,
            None => {
                let one = |v: f64| Array::scalar(loss.device(), Scalar::Float(v), DType::F32);
                let (scale, tracker) = (one(self.start.scale)?, one(self.start.growth_tracker as f64)?);
                self.live.insert(Live { scale, tracker })
            }
        };
        let wide = loss.dtype().compute();
        let scale = Tensor::from_array(live.scale.cast(wide)?);
        loss.try_to_dtype(wide)?.try_mul(&scale)
    }
    fn live(&self, op: &str) -> Result<&Live<B>> {
        self.live.as_ref().ok_or_else(|| {
            Error::argument(format!(
                "GradScaler: {op} before the first scale(loss): there is nothing to divide by"
            ))
        })
    }
    /// Divides a module's gradients by the scale, for clipping, say; [`GradScaler::step`] does it
    /// otherwise.
    ///
    /// # Errors
    /// `InvalidArgument` before [`GradScaler::scale`]; `Autograd` if no parameter has a gradient
    /// here, or one was divided already since the last [`GradScaler::update`]; `DTypeMismatch` if a
    /// gradient is f16; `OutOfMemory`. After an error the gradients are unchanged.
    pub fn unscale(&mut self, module: &dyn Module<B>, gradients: &mut Gradients<B>) -> Result<()> {
        self.live("unscale")?;
        if with_gradients(module, gradients).is_empty() {
            return Err(Error::autograd(
                "GradScaler: unscale: no parameter has a gradient here; scale(loss), then backward(), comes first",
            ));
        }
        self.unscale_some(module, gradients, Ok).map(drop)
    }
    /// [`GradScaler::unscale`] of those gradients that there are. `of_all` is given whether one of
    /// them is not finite, and tells whether the step is skipped, as does this.
    pub(crate) fn unscale_some(
        &mut self,
        module: &dyn Module<B>,
        gradients: &mut Gradients<B>,
        of_all: impl FnOnce(Array<B>) -> Result<Array<B>>,
    ) -> Result<Tensor<B>> {
        let live = self.live("unscale")?;
        let all = with_gradients(module, gradients);
        let ids: BTreeSet<u64> = all.iter().filter_map(|(x, _)| x.node_id()).collect();
        if self.divided.iter().any(|(seen, _)| !seen.is_disjoint(&ids)) {
            return Err(Error::autograd(
                "GradScaler: unscale: these gradients were divided by the scale already; once between two updates",
            ));
        }
        let is_half = |p: &Param<B>| gradients.get(&p.get()).is_some_and(|g| g.dtype() == DType::F16);
        if let Some((name, _)) = module.named_parameters().into_iter().find(|(_, p)| is_half(p)) {
            return Err(Error::dtype(format!(
                "GradScaler: unscale: the gradient of {name} is f16, in which it may be 0 already; parameters stay f32"
            )));
        }
        let skip = match total(&all, NormType::Inf)? {
            Some(most) => logical_not(&isfinite(&most)?)?,
            None => Array::scalar(live.scale.device(), Scalar::Bool(false), DType::Bool)?,
        };
        let skip = of_all(skip)?;
        let scales =
            all.iter().map(|(_, g)| live.scale.cast(g.dtype().compute())).collect::<Result<Vec<_>>>()?;
        // The gradients are moved out, so that uniquely owned ones are divided in place.
        let variables: Vec<Tensor<B>> = all.into_iter().map(|(x, _)| x).collect();
        let mut taken: Vec<Tensor<B>> = variables.iter().filter_map(|x| gradients.take(x)).collect();
        let parts = taken.iter_mut().zip(&scales).map(|(g, scale)| Part::new([g.array_mut()], [scale]));
        let done = update(&Divide, &mut parts.collect::<Vec<_>>());
        for (x, g) in variables.iter().zip(taken) {
            gradients.set(x, if done.is_ok() { g.detach() } else { g });
        }
        done?;
        self.divided.push((ids, skip.clone()));
        Ok(Tensor::from_array(skip))
    }
    /// A step of the optimiser with a module's gradients, divided if they are not yet; skipped if
    /// one of them is infinite or NaN.
    ///
    /// # Errors
    /// As [`GradScaler::unscale`], if they are not divided yet; those of [`Optimizer::step`].
    pub fn step(
        &mut self,
        optimizer: &mut dyn Optimizer<B>,
        module: &dyn Module<B>,
        gradients: &mut Gradients<B>,
    ) -> Result<()> {
        let skip = self.skip(module, gradients)?;
        optimizer.step_unless(skip.as_ref(), module, gradients)
    }
    /// Whether a step with a module's gradients is skipped, one bool; they are divided if they are
    /// not yet.
    pub(crate) fn skip(
        &mut self,
        module: &dyn Module<B>,
        gradients: &mut Gradients<B>,
    ) -> Result<Option<Tensor<B>>> {
        self.live("step")?;
        let ids: BTreeSet<u64> =
            with_gradients(module, gradients).iter().filter_map(|(x, _)| x.node_id()).collect();
        if !self.divided.iter().any(|(seen, _)| !seen.is_disjoint(&ids)) {
            self.unscale(module, gradients).map_err(|e| e.at("step"))?;
        }
        let of_these = self.divided.iter().filter(|(seen, _)| !seen.is_disjoint(&ids)).map(|(_, skip)| skip);
        Ok(any(of_these)?.map(Tensor::from_array))
    }
    /// Forgets what was divided since the last update.
    pub(crate) fn forget(&mut self) {
        self.divided.clear();
    }
    /// Prepares its state for a captured step, which changes it in place; tells where it is. `None`
    /// before the first loss is scaled.
    pub(crate) fn settle(&mut self) -> Result<Option<[Place; 2]>> {
        let Some(Live { scale, tracker }) = &mut self.live else { return Ok(None) };
        scale.make_unique()?;
        tracker.make_unique()?;
        Ok(Some([Place::of(scale)?, Place::of(tracker)?]))
    }
    /// Changes the scale after the steps of all optimisers: less after a step that was skipped,
    /// more after `growth_interval` that were made.
    ///
    /// # Errors
    /// `InvalidArgument` if no gradients were divided since the last update; `OutOfMemory`.
    pub fn update(&mut self) -> Result<()> {
        let Some(skipped) = any(self.divided.iter().map(|(_, skip)| skip))? else {
            return Err(Error::argument(
                "GradScaler: update: no gradients were divided since the last one; step() or unscale() comes first",
            ));
        };
        let ScalerState { growth_factor, backoff_factor, growth_interval, .. } = self.start;
        let next = Next { growth: growth_factor, backoff: backoff_factor, interval: growth_interval as f64 };
        let live = self.live.as_mut().expect("gradients were divided by it");
        own(&mut live.scale)?;
        own(&mut live.tracker)?;
        update(&next, &mut [Part::new([&mut live.scale, &mut live.tracker], [&skipped])])?;
        self.divided.clear();
        Ok(())
    }
    /// The state. Waits for the device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn state(&self) -> Result<ScalerState> {
        let Some(live) = &self.live else { return Ok(self.start) };
        let number = |x: &Array<B>| -> Result<f64> { Ok(x.to_host()?.to_f64_vec()[0]) };
        let (scale, tracker) = (number(&live.scale)?, number(&live.tracker)?);
        Ok(ScalerState { scale, growth_tracker: tracker as u64, ..self.start })
    }
    /// Goes on from a state.
    ///
    /// # Errors
    /// `InvalidArgument` if a value is out of its range; nothing has changed then.
    pub fn load_state(&mut self, state: ScalerState) -> Result<()> {
        state.check()?;
        *self = GradScaler { start: state, live: None, divided: vec![] };
        Ok(())
    }
}

/// Is one of them true?
fn any<'a, B: Backend>(mut all: impl Iterator<Item = &'a Array<B>>) -> Result<Option<Array<B>>> {
    let Some(first) = all.next() else { return Ok(None) };
    all.try_fold(first.clone(), |any, next| logical_or(&any, next)).map(Some)
}
