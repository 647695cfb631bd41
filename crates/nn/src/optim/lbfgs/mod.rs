//! `Lbfgs`: the limited-memory method of Broyden, Fletcher, Goldfarb and Shanno (Nocedal 1980; Liu
//! and Nocedal 1989), with PyTorch's settings, tests for an end and line search.
//!
//! A step evaluates its objective as often as it needs, so it takes a closure and is no
//! [`super::Optimizer`]. All parameters are one vector, on one device; what a step decides by is
//! read by the host.

mod line_search;
mod state;
mod vector;

use super::Named;
use crate::Module;
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_tensor::{Gradients, Tensor};
use std::collections::VecDeque;
use vector::Vector;

/// How a step finds its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LineSearch {
    /// It does not: the learning rate is the length.
    #[default]
    None,
    /// A length that fulfils the strong Wolfe conditions, by cubic interpolation (Nocedal and
    /// Wright, "Numerical Optimization", algorithms 3.5 and 3.6).
    StrongWolfe,
}

/// L-BFGS.
///
/// Up to `max_iter` times a step goes along d = -H g, where H approximates the inverse of the
/// Hessian by the last `history_size` changes of parameters and gradients.
///
/// ```
/// # use elinvar_nn::{Param, Tensor, optim::{Lbfgs, LineSearch}};
/// # use elinvar_reference::Reference;
/// let p: Param<Reference> = Param::new([3.0f32, -4.0].into());
/// let mut o = Lbfgs::new(1.0).line_search(LineSearch::StrongWolfe);
/// let first = o.step(&p, || {
///     let loss = (p.get() - 1.0).square().sum();
///     Ok((loss.clone(), loss.backward()))
/// })?;
/// assert_eq!(first, 29.0);
/// assert!(p.get().to_vec::<f32>()?.iter().all(|x| (x - 1.0).abs() < 1e-5));
/// # Ok::<(), elinvar_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Lbfgs<B: Backend> {
    lr: f64,
    max_iter: usize,
    max_eval: Option<usize>,
    tolerance_grad: f64,
    tolerance_change: f64,
    history_size: usize,
    line_search: LineSearch,
    maximize: bool,
    kept: Option<Kept<B>>,
}

/// The state between steps.
#[derive(Clone, Debug)]
struct Kept<B: Backend> {
    /// The direction, and how far the last iteration went along it.
    d: Array<B>,
    t: f64,
    /// Changes of the gradient and of the parameters, the oldest first, and 1 over the product of
    /// each pair.
    history: VecDeque<Pair<B>>,
    h_diag: f64,
    prev_flat_grad: Array<B>,
    prev_loss: f64,
    n_iter: u64,
    func_evals: u64,
}

#[derive(Clone, Debug)]
struct Pair<B: Backend> {
    y: Array<B>,
    s: Array<B>,
    ro: f64,
}

/// Below this the change of the gradient says nothing about the curvature.
const LEAST_CURVATURE: f64 = 1e-10;

impl<B: Backend> Lbfgs<B> {
    /// With this learning rate (PyTorch's default is 1), and PyTorch's defaults.
    pub fn new(lr: f64) -> Self {
        Lbfgs {
            lr,
            max_iter: 20,
            max_eval: None,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            history_size: 100,
            line_search: LineSearch::None,
            maximize: false,
            kept: None,
        }
    }
    /// Most iterations of a step (default 20).
    #[must_use]
    pub fn max_iter(mut self, n: usize) -> Self {
        self.max_iter = n;
        self
    }
    /// Most evaluations in a step (default: five for every four iterations).
    #[must_use]
    pub fn max_eval(mut self, n: usize) -> Self {
        self.max_eval = Some(n);
        self
    }
    /// A step ends where no derivative is larger than this (default 1e-7).
    #[must_use]
    pub fn tolerance_grad(mut self, v: f64) -> Self {
        self.tolerance_grad = v;
        self
    }
    /// A step ends where neither parameters nor loss change by more than this (default 1e-9).
    #[must_use]
    pub fn tolerance_change(mut self, v: f64) -> Self {
        self.tolerance_change = v;
        self
    }
    /// How many changes are kept (default 100).
    #[must_use]
    pub fn history_size(mut self, n: usize) -> Self {
        self.history_size = n;
        self
    }
    /// How a step finds its length (default: by the learning rate).
    #[must_use]
    pub fn line_search(mut self, how: LineSearch) -> Self {
        self.line_search = how;
        self
    }
    /// Goes up instead of down (default false).
    #[must_use]
    pub fn maximize(mut self, yes: bool) -> Self {
        self.maximize = yes;
        self
    }
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        self.lr
    }
    /// Sets the learning rate of the next steps.
    pub fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }

    fn check(&self) -> Result<()> {
        let wrong =
            |name: &str, v: f64| Error::argument(format!("lbfgs: {name} is {v}, and should be 0 or more"));
        let all = [
            ("lr", self.lr),
            ("tolerance_grad", self.tolerance_grad),
            ("tolerance_change", self.tolerance_change),
        ];
        match all.into_iter().find(|(_, v)| !(*v >= 0.0 && v.is_finite())) {
            Some((name, v)) => Err(wrong(name, v)),
            None if self.history_size == 0 => {
                Err(Error::argument("lbfgs: history_size is 0, and should be above 0"))
            }
            None => Ok(()),
        }
    }

    /// One step of the parameters that are not frozen. `closure` evaluates the loss at their
    /// present values, and its gradients. Returns the loss before the step. Waits for the device.
    ///
    /// # Errors
    /// `InvalidArgument` if a setting is out of its range; `DeviceMismatch` if the parameters are
    /// on several devices; `ShapeMismatch` if the state is of other parameters; those of `closure`,
    /// after which the parameters are at the last place that was tried; `OutOfMemory`.
    pub fn step(
        &mut self,
        module: &dyn Module<B>,
        closure: impl FnMut() -> Result<(Tensor<B>, Gradients<B>)>,
    ) -> Result<f64> {
        self.step_some(&module.named_parameters(), closure).map_err(|e| e.at("lbfgs"))
    }

    fn step_some(
        &mut self,
        parameters: &Named<'_, B>,
        mut closure: impl FnMut() -> Result<(Tensor<B>, Gradients<B>)>,
    ) -> Result<f64> {
        self.check()?;
        let vector = Vector::of(parameters)?;
        let mut evaluate = || {
            let (loss, gradients) = closure()?;
            let (loss, g) = (vector::number(loss.array())?, vector.gradient(&gradients)?);
            Ok(if self.maximize { (-loss, vector::scaled(&g, -1.0)?) } else { (loss, g) })
        };
        let (first, g) = evaluate()?;
        let mut kept = match self.kept.take() {
            Some(kept) => {
                vector.check(&kept.d)?;
                kept
            }
            None => Kept {
                d: g.clone(),
                t: 0.0,
                history: VecDeque::new(),
                h_diag: 1.0,
                prev_flat_grad: g.clone(),
                prev_loss: first,
                n_iter: 0,
                func_evals: 0,
            },
        };
        kept.func_evals += 1;
        let result = self.iterate(&vector, &mut evaluate, &mut kept, (first, g));
        self.kept = Some(kept);
        result.map(|()| if self.maximize { -first } else { first })
    }

    /// The iterations of a step, from this loss and gradient.
    fn iterate(
        &self,
        vector: &Vector<'_, B>,
        evaluate: &mut dyn FnMut() -> Result<(f64, Array<B>)>,
        kept: &mut Kept<B>,
        (mut loss, mut g): (f64, Array<B>),
    ) -> Result<()> {
        let most = self.max_eval.unwrap_or(self.max_iter.saturating_mul(5) / 4);
        let mut evaluations = 1;
        for iteration in 1..=self.max_iter {
            if vector::largest(&g)? <= self.tolerance_grad {
                return Ok(());
            }
            kept.n_iter += 1;
            kept.turn(&g, self.history_size)?;
            kept.prev_flat_grad = g.clone();
            kept.prev_loss = loss;
            // The first direction has the size of the gradient, which says nothing about lengths.
            let size = if kept.n_iter == 1 { (1.0 / vector::sum_of_sizes(&g)?).min(1.0) } else { 1.0 };
            kept.t = size * self.lr;
            let slope = vector::dot(&g, &kept.d)?;
            if slope > -self.tolerance_change {
                return Ok(());
            }
            let (start, d) = (vector.now()?, kept.d.clone());
            let mut at = |t: f64| {
                vector.set(&vector::moved(&start, t, &d)?)?;
                evaluate()
            };
            let mut made = 1;
            match self.line_search {
                LineSearch::StrongWolfe => {
                    let from = line_search::Point { t: 0.0, loss, slope, gradient: g };
                    let (to, n) = line_search::strong_wolfe(
                        &mut at,
                        from,
                        kept.t,
                        &d,
                        most.saturating_sub(evaluations),
                    )?;
                    (kept.t, loss, g, made) = (to.t, to.loss, to.gradient, n);
                    vector.set(&vector::moved(&start, kept.t, &d)?)?;
                }
                // What the last iteration reaches is evaluated by the next step.
                LineSearch::None if iteration == self.max_iter => {
                    return vector.set(&vector::moved(&start, kept.t, &d)?);
                }
                LineSearch::None => (loss, g) = at(kept.t)?,
            }
            evaluations += made;
            kept.func_evals += made as u64;
            if evaluations >= most
                || vector::largest(&d)? * kept.t <= self.tolerance_change
                || (loss - kept.prev_loss).abs() < self.tolerance_change
            {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<B: Backend> Kept<B> {
    /// The next direction, at a gradient: by the two loops of Nocedal.
    fn turn(&mut self, g: &Array<B>, most: usize) -> Result<()> {
        if self.n_iter == 1 {
            self.d = vector::scaled(g, -1.0)?;
            self.history.clear();
            self.h_diag = 1.0;
            return Ok(());
        }
        let y = vector::moved(g, -1.0, &self.prev_flat_grad)?;
        let s = vector::scaled(&self.d, self.t)?;
        let ys = vector::dot(&y, &s)?;
        if ys > LEAST_CURVATURE {
            while self.history.len() >= most {
                self.history.pop_front();
            }
            self.h_diag = ys / vector::dot(&y, &y)?;
            self.history.push_back(Pair { y, s, ro: 1.0 / ys });
        }
        let mut r = vector::scaled(g, -1.0)?;
        let mut along = Vec::with_capacity(self.history.len());
        for pair in self.history.iter().rev() {
            let a = vector::dot(&pair.s, &r)? * pair.ro;
            r = vector::moved(&r, -a, &pair.y)?;
            along.push(a);
        }
        r = vector::scaled(&r, self.h_diag)?;
        for (pair, a) in self.history.iter().zip(along.into_iter().rev()) {
            let b = vector::dot(&pair.y, &r)? * pair.ro;
            r = vector::moved(&r, a - b, &pair.s)?;
        }
        self.d = r;
        Ok(())
    }
}
