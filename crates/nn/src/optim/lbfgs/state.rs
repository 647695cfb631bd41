//! The state of `Lbfgs` on the host, by PyTorch's names, under the name of the first parameter.

use super::vector::Vector;
use super::{Kept, Lbfgs, LineSearch, Pair};
use crate::Module;
use crate::optim::OptimizerState;
use elinvar_core::{Error, HostTensor, Result, Shape};
use elinvar_ops::Backend;
use elinvar_ops::array::Array;
use elinvar_ops::catalogue::{select, stack};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const LINE_SEARCH: &str = "line_search_fn";
const STRONG_WOLFE: &str = "strong_wolfe";

impl<B: Backend> Lbfgs<B> {
    /// The state of a module's parameters and the settings, on the host. The history is three
    /// tensors: `old_dirs` and `old_stps`, a row per change, and `ro`. Waits for the device.
    ///
    /// # Errors
    /// What the device reports; `OutOfMemory`.
    pub fn state_dict(&self, module: &dyn Module<B>) -> Result<OptimizerState> {
        let parameters = module.named_parameters();
        let mut out = OptimizerState::default();
        if let (Some(kept), Some((name, _))) = (&self.kept, parameters.first()) {
            let mut keys = BTreeMap::new();
            let mut put = |key: &str, v: Vec<f64>, shape: &[usize]| -> Result<()> {
                keys.insert(key.to_owned(), HostTensor::from_vec(v, Shape::new(shape)?)?);
                Ok(())
            };
            put("t", vec![kept.t], &[])?;
            put("H_diag", vec![kept.h_diag], &[])?;
            put("prev_loss", vec![kept.prev_loss], &[])?;
            put("n_iter", vec![kept.n_iter as f64], &[])?;
            put("func_evals", vec![kept.func_evals as f64], &[])?;
            put("ro", kept.history.iter().map(|p| p.ro).collect(), &[kept.history.len()])?;
            keys.insert("d".to_owned(), kept.d.to_host()?);
            keys.insert("prev_flat_grad".to_owned(), kept.prev_flat_grad.to_host()?);
            if !kept.history.is_empty() {
                let rows = |of: fn(&Pair<B>) -> &Array<B>| {
                    stack(&kept.history.iter().map(of).collect::<Vec<_>>(), 0)?.to_host()
                };
                keys.insert("old_dirs".to_owned(), rows(|p| &p.y)?);
                keys.insert("old_stps".to_owned(), rows(|p| &p.s)?);
            }
            out.state.insert(name.clone(), keys);
        }
        let params = parameters.iter().map(|(name, _)| Value::from(name.as_str())).collect();
        let search = match self.line_search {
            LineSearch::None => Value::Null,
            LineSearch::StrongWolfe => STRONG_WOLFE.into(),
        };
        let settings = [
            ("optimizer", Value::from("lbfgs")),
            ("lr", self.lr.into()),
            ("max_iter", self.max_iter.into()),
            ("max_eval", self.max_eval.map_or(Value::Null, Value::from)),
            ("tolerance_grad", self.tolerance_grad.into()),
            ("tolerance_change", self.tolerance_change.into()),
            ("history_size", self.history_size.into()),
            (LINE_SEARCH, search),
            ("maximize", self.maximize.into()),
            ("params", Value::Array(params)),
        ];
        out.param_groups.push(settings.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
        Ok(out)
    }

    /// Restores a state: everything is checked before anything changes. A state without groups does
    /// not change settings.
    ///
    /// # Errors
    /// `InvalidArgument` if the state is of another optimiser, lacks something, or has what does
    /// not belong to it; `ShapeMismatch` or `DTypeMismatch` if it does not fit the parameters;
    /// `OutOfMemory`.
    pub fn load_state_dict(&mut self, module: &dyn Module<B>, from: &OptimizerState) -> Result<()> {
        let place = |e: Error| e.at("load_state_dict").at("lbfgs");
        let mut next = Lbfgs { kept: None, ..self.clone() };
        if let Some(group) = from.param_groups.first() {
            next.take(group).map_err(place)?;
        }
        next.check()?;
        let parameters = module.named_parameters();
        let vector = Vector::of(&parameters).map_err(place)?;
        let first = parameters.first().map(|(name, _)| name.as_str());
        for (name, keys) in from.state.iter().filter(|(_, keys)| !keys.is_empty()) {
            if Some(name.as_str()) != first {
                return Err(place(super::super::load::unknown(name)));
            }
            let device = parameters[0].1.get().device().clone();
            let kept = restore(keys, &device).and_then(|kept| {
                let pairs = kept.history.iter().flat_map(|p| [&p.y, &p.s]);
                [&kept.d, &kept.prev_flat_grad].into_iter().chain(pairs).try_for_each(|x| vector.check(x))?;
                Ok(kept)
            });
            next.kept = Some(kept.map_err(place)?);
        }
        *self = next;
        Ok(())
    }

    fn take(&mut self, group: &Map<String, Value>) -> Result<()> {
        for (name, v) in group {
            let wrong = || Error::argument(format!("{name} is {v}, which is no value of it"));
            let number = || v.as_f64().ok_or_else(wrong);
            let count = || v.as_u64().and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong);
            match name.as_str() {
                "lr" => self.lr = number()?,
                "max_iter" => self.max_iter = count()?,
                "max_eval" => self.max_eval = if v.is_null() { None } else { Some(count()?) },
                "tolerance_grad" => self.tolerance_grad = number()?,
                "tolerance_change" => self.tolerance_change = number()?,
                "history_size" => self.history_size = count()?,
                "maximize" => self.maximize = v.as_bool().ok_or_else(wrong)?,
                LINE_SEARCH => {
                    self.line_search = match v {
                        Value::Null => LineSearch::None,
                        Value::String(s) if s == STRONG_WOLFE => LineSearch::StrongWolfe,
                        _ => return Err(wrong()),
                    }
                }
                "params" | "param_names" => {}
                "optimizer" if v == "lbfgs" => {}
                _ => {
                    return Err(Error::argument(format!(
                        "the state has a setting {name} {v}, which this optimiser has not"
                    )));
                }
            }
        }
        Ok(())
    }
}

fn restore<B: Backend>(keys: &BTreeMap<String, HostTensor>, device: &B::Device) -> Result<Kept<B>> {
    const KNOWN: &[&str] = &[
        "d",
        "t",
        "H_diag",
        "prev_flat_grad",
        "prev_loss",
        "n_iter",
        "func_evals",
        "ro",
        "old_dirs",
        "old_stps",
    ];
    if let Some(key) = keys.keys().find(|k| !KNOWN.contains(&k.as_str())) {
        return Err(Error::argument(format!("the state has {key}, which the optimiser does not keep")));
    }
    let get = |key: &str| keys.get(key).ok_or_else(|| Error::argument(format!("the state lacks {key}")));
    let number = |key: &str| match get(key)?.to_f64_vec()[..] {
        [v] => Ok(v),
        _ => Err(Error::shape(format!("{key} should be one number"))),
    };
    let array = |key: &str| Array::<B>::from_host(device, get(key)?.clone());
    let ro = get("ro")?.to_f64_vec();
    let mut history = std::collections::VecDeque::new();
    if !ro.is_empty() {
        let (y, s) = (array("old_dirs")?, array("old_stps")?);
        for (key, x) in [("old_dirs", &y), ("old_stps", &s)] {
            if x.shape().rank() != 2 || x.shape()[0] != ro.len() {
                return Err(Error::shape(format!(
                    "{key} is {}, and should have {} rows, one for each of ro",
                    x.shape(),
                    ro.len()
                )));
            }
        }
        for (i, &ro) in ro.iter().enumerate() {
            let row = |x: &Array<B>| select(x, 0, i as isize);
            history.push_back(Pair { y: row(&y)?, s: row(&s)?, ro });
        }
    }
    Ok(Kept {
        d: array("d")?,
        t: number("t")?,
        history,
        h_diag: number("H_diag")?,
        prev_flat_grad: array("prev_flat_grad")?,
        prev_loss: number("prev_loss")?,
        n_iter: number("n_iter")? as u64,
        func_evals: number("func_evals")? as u64,
    })
}
