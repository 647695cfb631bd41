//! `Rule`, the definition of an optimiser: its settings, its states, its formula.

use super::update::{Step, Work, each};
use elinvar_core::{Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::lane::Lane;
use elinvar_ops::update::UpdateObject;
use serde_json::Value;
use std::fmt::Debug;

/// The specific part of an optimiser; the common part is [`super::Descent`]. The value of a rule is
/// its settings.
///
/// A new optimiser is one file: a struct of settings that implements this, and an alias of
/// `Descent`. This one uses the sign of the gradient:
/// ```
/// use elinvar_nn::optim::{At, Descent, Rule, Setting, Step};
/// use elinvar_ops::{lane::Lane, update::UpdateObject};
///
/// #[derive(Clone, Copy, Debug, Default)]
/// struct SignRule;
///
/// impl Rule for SignRule {
///     const NAME: &'static str = "sign";
///     fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)> {
///         vec![]
///     }
///     fn keeps(&self) -> Vec<(&'static str, f64)> {
///         vec![]
///     }
///     fn scalars(&self, at: At<'_>, _: &mut [f64]) -> Vec<f64> {
///         vec![at.lr]
///     }
///     fn lane<L: Lane>(&self, x: L, g: L, _: &mut [L], s: &[L]) -> L {
///         x - s[0].copysign(g)
///     }
///     fn formula(step: Step<Self>) -> Box<dyn UpdateObject> {
///         // Changes: the parameter. Reads: gradient, shrink, lr.
///         step.formula::<1, 3>()
///     }
/// }
///
/// # use elinvar_nn::{Gradients, Param, Tensor, optim::Optimizer};
/// # use elinvar_reference::Reference;
/// let p: Param<Reference> = Param::new([1.0f32, 2.0].into());
/// let gradients = (p.get() * Tensor::from([3.0f32, -4.0])).sum().backward();
/// Descent::<Reference, SignRule>::new(0.5).step(&p, &gradients)?;
/// assert_eq!(p.get().to_vec::<f32>()?, [0.5, 2.5]);
/// # Ok::<(), elinvar_core::Error>(())
/// ```
pub trait Rule: Copy + Debug + Default + Send + Sync + 'static {
    /// The optimiser's name.
    const NAME: &'static str;
    /// Default weight decay.
    const WEIGHT_DECAY: f64 = 0.0;
    /// Does a step depend on the step number?
    const COUNTS: bool = true;

    /// The settings by PyTorch's names, with their ranges; without learning rate, weight decay and
    /// `maximize`.
    fn settings(&mut self) -> Vec<(&'static str, Setting<'_>)>;
    /// The error message if the settings contradict each other.
    fn conflict(&self) -> Option<String> {
        None
    }
    /// Is weight decay decoupled: does it shrink the parameter by 1 - lr * weight_decay?
    fn decoupled(&self) -> bool {
        false
    }
    /// The states by PyTorch's names, and the initial value of each.
    fn keeps(&self) -> Vec<(&'static str, f64)>;
    /// Those of a parameter of this shape, of a rule for which they are not the same for all.
    fn keeps_for(&self, _shape: &Shape) -> Vec<(&'static str, f64)> {
        self.keeps()
    }
    /// The shape of a state: that of the parameter, unless the rule says otherwise.
    ///
    /// # Errors
    /// If there is no such shape.
    fn state_shape(&self, _key: &str, shape: &Shape) -> Result<Shape> {
        Ok(shape.clone())
    }
    /// Scalar states per parameter, and the initial value of each.
    fn numbers(&self) -> &'static [(&'static str, f64)] {
        &[]
    }
    /// The scalars of a step, in f64. `numbers` are those of [`Rule::numbers`], which the step may
    /// change.
    fn scalars(&self, at: At<'_>, numbers: &mut [f64]) -> Vec<f64>;
    /// The formula: the new value of a parameter `x` (already shrunk, if weight decay is decoupled)
    /// with gradient `g` (already with weight decay, if it is not); updates the states. `s` are the
    /// values of [`Rule::scalars`].
    fn lane<L: Lane>(&self, x: L, g: L, states: &mut [L], s: &[L]) -> L;
    /// The formula of a step as an object: [`Step::formula`] with the numbers of operands that it
    /// changes and reads. Its loops are compiled in the crate of this function, if neither it nor
    /// the rule is generic.
    fn formula(step: Step<Self>) -> Box<dyn UpdateObject>;
    /// Makes a step of some parameters. After an error nothing has changed.
    ///
    /// # Errors
    /// Those of [`super::each`].
    fn run<B: Backend>(step: &Step<Self>, all: &mut [Work<'_, B>]) -> Result<()> {
        each(&*Self::formula(*step), all)
    }
}

/// The state of a parameter's training.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The learning rate.
    pub lr: f64,
    /// The step number, from 1.
    pub step: u64,
    /// Is it the first step, without states?
    pub fresh: bool,
    /// The parameter's shape.
    pub shape: &'a Shape,
}

/// A setting of a rule.
#[derive(Debug)]
pub enum Setting<'a> {
    /// A number.
    Number(&'a mut f64, Range),
    /// Several numbers.
    Numbers(&'a mut [f64], Range),
    /// Several numbers, of which `None` (null) stands for a default.
    Optional(&'a mut [Option<f64>], Range),
    /// An integer up to the second value.
    Count(&'a mut usize, usize),
    /// Yes or no.
    Flag(&'a mut bool),
    /// One of these words; the first is the default.
    Word(&'a mut &'static str, &'static [&'static str]),
}

/// The range of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// 0 or more.
    NotNegative,
    /// In 0..1.
    BelowOne,
    /// Any number.
    Finite,
}

impl Range {
    fn has(self, v: f64) -> bool {
        match self {
            Range::NotNegative => v >= 0.0 && v.is_finite(),
            Range::BelowOne => (0.0..1.0).contains(&v),
            Range::Finite => v.is_finite(),
        }
    }
    fn words(self) -> &'static str {
        match self {
            Range::NotNegative => "0 or more",
            Range::BelowOne => "in 0..1",
            Range::Finite => "a number",
        }
    }
}

impl Setting<'_> {
    /// The error message if the value is out of its range.
    pub(super) fn fault(&self, name: &str) -> Option<String> {
        let number = |name: &str, v: f64, r: Range| {
            (!r.has(v)).then(|| format!("{name} is {v}, and should be {}", r.words()))
        };
        match self {
            Setting::Number(v, r) => number(name, **v, *r),
            Setting::Numbers(v, r) => {
                v.iter().enumerate().find_map(|(i, v)| number(&format!("{name}[{i}]"), *v, *r))
            }
            Setting::Optional(v, r) => {
                v.iter().enumerate().find_map(|(i, v)| v.and_then(|v| number(&format!("{name}[{i}]"), v, *r)))
            }
            Setting::Count(v, most) => {
                (**v > *most).then(|| format!("{name} is {v}, and should be {most} or less"))
            }
            Setting::Flag(_) | Setting::Word(..) => None,
        }
    }
    pub(super) fn get(&self) -> Value {
        match self {
            Setting::Number(v, _) => Value::from(**v),
            Setting::Numbers(v, _) => v.iter().copied().map(Value::from).collect(),
            Setting::Optional(v, _) => v.iter().copied().map(Value::from).collect(),
            Setting::Count(v, _) => Value::from(**v),
            Setting::Flag(v) => Value::from(**v),
            Setting::Word(v, _) => Value::from(**v),
        }
    }
    /// Sets a value; the error says what would have fitted.
    pub(super) fn set(&mut self, to: &Value) -> std::result::Result<(), String> {
        match self {
            Setting::Number(v, _) => **v = to.as_f64().ok_or("a number")?,
            Setting::Numbers(v, _) => {
                let wrong = || format!("a list of {} numbers", v.len());
                let list = to.as_array().filter(|l| l.len() == v.len()).ok_or_else(wrong)?;
                let new: Option<Vec<f64>> = list.iter().map(Value::as_f64).collect();
                v.copy_from_slice(&new.ok_or_else(wrong)?);
            }
            Setting::Optional(v, _) => {
                let wrong = || format!("a list of {} numbers or nulls", v.len());
                let list = to.as_array().filter(|l| l.len() == v.len()).ok_or_else(wrong)?;
                let one = |v: &Value| if v.is_null() { Some(None) } else { v.as_f64().map(Some) };
                let new: Option<Vec<Option<f64>>> = list.iter().map(one).collect();
                v.copy_from_slice(&new.ok_or_else(wrong)?);
            }
            Setting::Count(v, _) => {
                **v = to.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or("a whole number")?;
            }
            Setting::Flag(v) => **v = to.as_bool().ok_or("true or false")?,
            Setting::Word(v, words) => {
                let word = if to.is_null() { Some(words[0]) } else { to.as_str() };
                let known = words.iter().find(|w| Some(**w) == word);
                **v = known.ok_or_else(|| format!("one of {}", words.join(", ")))?;
            }
        }
        Ok(())
    }
}

/// The builder methods of an optimiser's own settings.
macro_rules! setters {
    (@one $(#[$doc:meta])* betas: ()) => {
        $(#[$doc])*
        #[must_use]
        pub fn betas(mut self, b1: f64, b2: f64) -> Self {
            self.rule_mut().betas = [b1, b2];
            self
        }
    };
    (@one $(#[$doc:meta])* $name:ident: $t:ty) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $t) -> Self {
            self.rule_mut().$name = $name;
            self
        }
    };
    ($rule:ident $(<const $c:ident: bool>)?: $($(#[$doc:meta])* $name:ident: $t:tt;)*) => {
        impl<B: elinvar_ops::Backend $(, const $c: bool)?> super::Descent<B, $rule $(<$c>)?> {
            $(super::rule::setters!(@one $(#[$doc])* $name: $t);)*
        }
    };
}
pub(super) use setters;
