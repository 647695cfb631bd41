//! Gradients that are told before a pass has ended: each once, when it is final, with the bits of a
//! plain pass.

use elinvar_core::{Error, ErrorKind};
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Backward, backward, backward_each, checkpoint};
use std::sync::{Arc, Mutex};

type Tensor = elinvar_tensor::Tensor<Reference>;

fn t(v: &[f64]) -> Tensor {
    Tensor::from_vec(v.to_vec(), v.len(), &ReferenceDevice)
}
fn variable(v: &[f64]) -> Tensor {
    t(v).requires_grad()
}
fn bits(x: Option<&Tensor>) -> Option<Vec<u64>> {
    x.map(|x| x.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect())
}

/// What has happened in a pass, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
    /// Notes when the pass comes to this tensor.
    fn watch(&self, x: &Tensor, name: &'static str) {
        let log = self.clone();
        x.register_hook(move |_| {
            log.add(name);
            None
        });
    }
    fn all(&self) -> String {
        self.0.lock().unwrap().join(" ")
    }
}

/// Runs a plain pass, and one that tells of the variables; returns what happened in the second.
fn told(y: &Tensor, variables: &[&Tensor], log: &Log) -> String {
    let want = backward(&[(y, None)], Backward::retain_graph()).unwrap();
    log.0.lock().unwrap().clear();
    let mut seen = vec![0; variables.len()];
    let got = backward_each(&[(y, None)], Backward::default(), variables, &mut |k, g| {
        seen[k] += 1;
        log.add(k.to_string());
        assert_eq!(bits(g), bits(want.get(variables[k])), "variable {k}");
        Ok(())
    });
    let got = got.unwrap();
    assert_eq!(seen, vec![1; variables.len()]);
    assert_eq!(got.len(), want.len());
    for x in variables {
        assert_eq!(bits(got.get(x)), bits(want.get(x)));
    }
    log.all()
}

#[test]
fn a_gradient_is_told_when_the_oldest_reader_is_done() {
    let log = Log::default();
    let (a, b, c) = (variable(&[0.3]), variable(&[0.7]), variable(&[1.1]));
    let first = (&a * &b).tanh();
    log.watch(&first, "first");
    let second = (&first * &b).exp();
    log.watch(&second, "second");
    let third = &second * &c;
    log.watch(&third, "third");
    // c is read by the last op alone, b by the first and the second.
    assert_eq!(told(&third, &[&a, &b, &c], &log), "third 2 second first 1 0");
    // Not asked for.
    assert_eq!(told(&(&(&a * &b) * &c), &[&c], &Log::default()), "0");
}

#[test]
fn variables_without_a_gradient_are_told_at_once() {
    let log = Log::default();
    let (a, unused) = (variable(&[2.0]), variable(&[3.0]));
    let y = &a * 2.0;
    log.watch(&y, "y");
    assert_eq!(told(&y, &[&a, &unused], &log), "1 y 0");
    // An output that is a variable itself.
    assert_eq!(told(&a, &[&unused, &a], &Log::default()).len(), 3);
    // One that is read where no gradient goes: a comparison.
    let z = &a.relu() * &t(&[1.0]) + &unused.detach() * 0.0;
    assert_eq!(told(&z, &[&unused, &a], &Log::default()), "0 1");
}

#[test]
fn a_variable_may_be_younger_than_ops_and_read_several_times() {
    let log = Log::default();
    let a = variable(&[0.5, 2.0]);
    let first = a.exp();
    log.watch(&first, "first");
    let late = variable(&[3.0, 4.0]);
    let y = ((&late * &late) * &first + &late).sum();
    // The pass itself would come to `late` before `first`, which is older.
    let said = told(&y, &[&a, &late], &log);
    assert_eq!(said, "1 first 0");
    // Ops with several results.
    let x = variable(&[3.0, 1.0, 2.0]);
    let (values, _) = x.sort(0, false);
    let y = (values * t(&[1.0, 10.0, 100.0])).sum();
    assert_eq!(told(&y, &[&x], &Log::default()), "0");
}

#[test]
fn hooks_of_a_variable_come_before_it_is_told() {
    let a = variable(&[2.0]);
    a.register_hook(|g| Some(g * 10.0));
    let y = &a * 3.0;
    let mut seen = vec![];
    backward_each(&[(&y, None)], Backward::default(), &[&a], &mut |_, g| {
        seen.extend(g.unwrap().to_vec::<f64>()?);
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [30.0]);
}

/// A segment that is recomputed reads variables that are not its operands, and results whose own
/// variables are seen only behind it.
#[test]
fn nothing_is_told_before_a_checkpoint_is_done() {
    let log = Log::default();
    let (a, w, last) = (variable(&[0.3]), variable(&[0.9]), variable(&[2.0]));
    let captured = &w * 0.5;
    log.watch(&captured, "captured");
    let inside = captured.clone();
    let y = checkpoint(move |x| Ok((&x[0] * &inside).tanh()), &[&a]).unwrap();
    log.watch(&y, "y");
    let z = &y * &last;
    let said = told(&z, &[&a, &w, &last], &log);
    // `last` is final after one op, but may be read by the segment.
    let at = |what: &str| said.split(' ').position(|x| x == what).unwrap();
    assert!(at("y") < at("2") && at("captured") < at("1"), "{said}");
    // Two of them, one behind the other.
    let (u, v) = (w.clone(), last.clone());
    let first = checkpoint(move |x| Ok(&x[0] * &u), &[&a]).unwrap();
    let second = checkpoint(move |x| Ok(&x[0] * &v), &[&first]).unwrap();
    let log = Log::default();
    log.watch(&first, "first");
    let said = told(&second, &[&w, &last], &log);
    assert!(said.starts_with("first") && said.len() == "first 0 1".len(), "{said}");
}

#[test]
fn recorded_gradients_are_told_too() {
    let x = variable(&[3.0]);
    let y = &x * &x * &x;
    let mut kept = vec![];
    backward_each(&[(&y, None)], Backward::create_graph(), &[&x], &mut |_, g| {
        kept.extend(g.cloned());
        Ok(())
    })
    .unwrap();
    let second = kept[0].grad(&[&x])[0].clone().unwrap();
    assert_eq!(second.to_vec::<f64>().unwrap(), [18.0]);
}

#[test]
fn what_cannot_be_told_is_an_error() {
    let (x, constant) = (variable(&[3.0]), t(&[1.0]));
    let inner = &x * 2.0;
    let y = &inner * &constant;
    let run = |variables: &[&Tensor]| {
        backward_each(&[(&y, None)], Backward::retain_graph(), variables, &mut |_, _| Ok(())).unwrap_err()
    };
    for (variables, sentence) in [
        (&[&x, &constant][..], "backward_each: tensor 1 is no variable"),
        (&[&inner], "backward_each: tensor 0 is no variable"),
        (&[&x, &x], "backward_each: tensors 0 and 1 are one variable; each is told once"),
    ] {
        let e = run(variables);
        assert_eq!((e.kind(), e.message()), (ErrorKind::InvalidArgument, sentence));
    }
    let e = backward_each(&[(&y, None)], Backward::default(), &[&x], &mut |_, _| Err(Error::argument("no")));
    assert_eq!(e.unwrap_err().message(), "no");
}
