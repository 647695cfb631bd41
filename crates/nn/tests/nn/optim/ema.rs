//! Averages of weights.

use super::{B, D, number, step};
use elinvar_core::{DType, ErrorKind, HostTensor, Shape};
use elinvar_nn::ema::{Average, BufferAverage, Ema};
use elinvar_nn::layers::BatchNorm1d;
use elinvar_nn::optim::Sgd;
use elinvar_nn::{Module, Param, Tensor};

const EXPONENTIAL: Average = Average::Exponential { decay: 0.75 };

fn set(m: &BatchNorm1d<B>, k: f32) {
    m.weight.as_ref().unwrap().set(&[1.0 + k, -2.0 * k].into()).unwrap();
    m.running_mean.as_ref().unwrap().set(&[0.5 * k, 4.0 - k].into()).unwrap();
    let n = HostTensor::from_vec(vec![k as i64], Shape::scalar()).unwrap();
    m.num_batches_tracked.as_ref().unwrap().set(&Tensor::from_host(n, &D).unwrap()).unwrap();
}

/// Rows of PyTorch 2.15, which are exact in f32:
/// ```python
/// m = torch.nn.BatchNorm1d(2)
/// a = AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn(0.75) if ema else None, use_buffers=use_buffers)
/// for k in range(3):
///     m.weight.copy_(torch.tensor([1.0 + k, -2.0 * k])); m.running_mean.copy_(torch.tensor([0.5 * k, 4.0 - k]))
///     m.num_batches_tracked.fill_(k); a.update_parameters(m)
/// a.state_dict()
/// ```
/// Except `num_batches_tracked`, which PyTorch does not update if buffers are averaged.
#[test]
fn averages_are_those_of_pytorch() {
    let rows = [
        (EXPONENTIAL, BufferAverage::Averaged, [1.6875, -1.375], [0.34375, 3.3125]),
        (EXPONENTIAL, BufferAverage::Copied, [1.6875, -1.375], [1.0, 2.0]),
        (Average::Equal, BufferAverage::Averaged, [2.0, -2.0], [0.5, 3.0]),
        (Average::Equal, BufferAverage::Copied, [2.0, -2.0], [1.0, 2.0]),
    ];
    for (average, buffers, weight, mean) in rows {
        let m = BatchNorm1d::<B>::new(2, &D);
        let mut ema = Ema::new(average, buffers).unwrap();
        for k in 0..3 {
            set(&m, k as f32);
            ema.update(&m).unwrap();
        }
        let before = Module::<B>::state_dict(&m).unwrap();
        ema.apply(&m).unwrap();
        let near = |name: &str, want: [f64; 2]| {
            let got = m.state_dict().unwrap()[name].to_f64_vec();
            // A third is not exact.
            assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 3e-7), "{average:?} {name}: {got:?}");
        };
        near("weight", weight);
        near("running_mean", mean);
        assert_eq!(m.state_dict().unwrap()["num_batches_tracked"].to_f64_vec(), [2.0]);
        // The module has the averages now, which may not be averaged.
        let e = ema.update(&m).unwrap_err();
        assert!(e.message().starts_with("ema: the module holds the averages now"), "{e}");
        assert_eq!(ema.apply(&m).unwrap_err().kind(), ErrorKind::InvalidArgument);
        ema.restore(&m).unwrap();
        assert_eq!(m.state_dict().unwrap(), before);
        assert_eq!(ema.restore(&m).unwrap_err().kind(), ErrorKind::InvalidArgument);

        // Restored from its state, it continues with the same results.
        let saved = ema.state_dict().unwrap();
        assert_eq!(saved["n_averaged"].to_f64_vec(), [3.0]);
        assert!(saved.contains_key("module.weight") && saved.contains_key("module.num_batches_tracked"));
        let mut resumed = Ema::new(average, buffers).unwrap();
        resumed.load_state_dict(&m, &saved).unwrap();
        set(&m, 7.0);
        ema.update(&m).unwrap();
        resumed.update(&m).unwrap();
        assert_eq!(resumed.state_dict().unwrap(), ema.state_dict().unwrap());
        ema.copy_to(&m).unwrap();
        assert_eq!(m.state_dict().unwrap()["weight"], ema.state_dict().unwrap()["module.weight"]);
    }
}

#[test]
fn averages_of_halves_are_kept_in_f32() {
    let p = Param::new(number(1.0, DType::BF16));
    let mut ema = Ema::<B>::new(Average::Exponential { decay: 0.999 }, BufferAverage::Copied).unwrap();
    ema.update(&p).unwrap();
    // 1.001 is 1 in bf16, in which an average would never change.
    p.set(&number(2.0, DType::BF16)).unwrap();
    for _ in 0..1000 {
        ema.update(&p).unwrap();
    }
    let average = &ema.state_dict().unwrap()["module."];
    assert_eq!(average.dtype(), DType::F32);
    // 2 - 0.999^1000
    assert!((average.to_f64_vec()[0] - 1.632304).abs() < 1e-4, "{average:?}");
    ema.copy_to(&p).unwrap();
    // Rounded to bf16: spacing 2^-7.
    assert_eq!((p.get().item::<f64>(), p.get().dtype()), (1.6328125, DType::BF16));
    // It is still a weight, and can be trained.
    step(&mut Sgd::new(0.5), &p, 1.0).unwrap();
    assert_eq!(p.get().item::<f64>(), 1.1328125);
}

#[test]
fn what_does_not_fit_is_refused() {
    let p = Param::new(number(1.0, DType::F32));
    let e = Ema::<B>::new(Average::Exponential { decay: 1.5 }, BufferAverage::Copied).unwrap_err();
    assert_eq!(e.message(), "ema: decay is 1.5, and should be in 0..=1");
    let mut ema = Ema::<B>::new(EXPONENTIAL, BufferAverage::Copied).unwrap();
    assert_eq!(ema.apply(&p).unwrap_err().message(), "ema: there are no averages before the first update");
    ema.update(&p).unwrap();
    let other = (Param::<B>::new([1.0f32].into()), p.share());
    assert_eq!(ema.update(&other).unwrap_err().message(), "ema: there is no average of \"0\"");
    let good = ema.state_dict().unwrap();
    let t = |n: usize| HostTensor::from_vec(vec![1.0f32; n], Shape::new(&[n]).unwrap()).unwrap();
    let rows = [
        ("module.", Some(t(1)), "has shape [1], and should have []"),
        ("module.", None, "there is no average of \"\""),
        ("module.more", Some(t(1)), "the module has no \"module.more\""),
        ("n_averaged", None, "n_averaged should be a number of updates"),
        ("n_averaged", Some(t(2)), "n_averaged should be a number of updates"),
    ];
    for (name, value, sentence) in rows {
        let mut wrong = good.clone();
        match value {
            Some(t) => wrong.insert(name.to_owned(), t),
            None => wrong.remove(name),
        };
        let e = ema.load_state_dict(&p, &wrong).unwrap_err();
        assert!(e.message().starts_with("ema: load_state_dict: ") && e.message().ends_with(sentence), "{e}");
        assert_eq!(ema.state_dict().unwrap(), good);
    }
}
