#!/bin/sh
# Checks and measures elinvar on this machine's first GPU: NVIDIA's or AMD's, as the file `device` beside this script says. Needs a
# driver (ROCm's, with its compiler library), and nothing else; where python3 has a torch that knows the GPU, it is measured beside.
# Ends within nine minutes, whatever happens.
#
# usage: run.sh [DIRECTORY] [models]      where results are written: one .json and one .log (here, if no directory is given)
#
# With `models` it measures whole models alone: GPT-2's step of training in each precision with time and peak memory, tokens that
# are written, small steps, BERT; and PyTorch's, eager, compiled and as CUDA graphs. TINY=1 takes a small model instead of GPT-2, and of
# the small steps the least, by which this script can be tried on any device (DEVICE, and TORCH_DEVICE of PyTorch). OPS: only these of the golden cases.
#
# Every step has a limit of its own, and what is left of the whole at most. A step that fails is noted, and the next one runs.

set -u
cd "$(dirname "$0")" || exit 1
out=${1:-.}
group=${2:-all}
case $group in all | models) ;; *) echo "run.sh: no group $group; there is models" >&2 && exit 2 ;; esac
mkdir -p "$out" || exit 1
chmod +x elinvar elinvar-lab 2>/dev/null
vendor=$(cut -d: -f1 device)
device=${DEVICE:-$(cat device)}
whole=${SECONDS_IN_ALL:-520}
begun=$(date +%s)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
steps="$work/steps"
: >"$steps"
# What is compiled is kept for this run only, so that each run measures the same.
ELINVAR_CACHE_DIR="$work/cache"
export ELINVAR_CACHE_DIR

# One step: its name, its limit in seconds, its command. Notes its status (124: out of time), its seconds and where its output is.
step() {
    name=$1 limit=$2
    shift 2
    left=$((whole - ($(date +%s) - begun)))
    [ "$left" -lt "$limit" ] && limit=$left
    from=$(date +%s)
    if [ "$limit" -le 1 ]; then
        status=125
        : >"$work/$name.out"
        echo "left out: no time is left" >"$work/$name.err"
    else
        timeout -k 5 "$limit" "$@" >"$work/$name.out" 2>"$work/$name.err"
        status=$?
    fi
    seconds=$(($(date +%s) - from))
    echo "$name $status $seconds" >>"$steps"
    echo "$name: status $status, $seconds s"
}

# Lines as JSON strings between commas; lines that are JSON objects already stay as they are.
strings() {
    awk 'BEGIN { n = 0 }
        function put(text) { printf "%s%s", (n++ ? "," : ""), text }
        /^\{.*\}$/ { put($0); next }
        { gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/[\001-\037]/, " "); put("\"" $0 "\"") }'
}
string() { printf '%s' "$1" | head -n 1 | strings | sed 's/^$/""/'; }

# The first file of a name below python3's packages: a torch brings its vendor's libraries.
in_python() {
    python3 -c 'import glob, site, sys
print(*[p for d in site.getsitepackages() for p in glob.glob(d + "/" + sys.argv[1], recursive=True)][:1])' "$1" 2>/dev/null
}
# Names a library to the programs, if it is to be found there and nothing else was named: its variable, its file.
from_python() {
    eval "named=\${$1:-}"
    [ -z "$named" ] && found=$(in_python "$2") && [ -n "$found" ] && export "$1=$found"
}

case $vendor in
    cuda) step gpu 20 nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm --format=csv,noheader ;;
    rocm)
        # Where ROCm installs itself, which systems often do not search; without it, what a torch brings.
        if [ -d /opt/rocm/lib ]; then
            export LD_LIBRARY_PATH="/opt/rocm/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
        elif ! ldconfig -p 2>/dev/null | grep -q libamdhip64; then
            from_python ELINVAR_HIP_LIBRARY "torch/lib/libamdhip64.so*"
            from_python ELINVAR_COMGR_LIBRARY "torch/lib/libamd_comgr.so*"
        fi
        step gpu 20 sh -c 'rocm-smi --showproductname --showmeminfo vram --showmaxpower | grep "^GPU.0"'
        ;;
esac
step devices 60 ./elinvar-lab devices
# All but whole models.
everything() {
    # In parts side by side: most of the time goes into compiling kernels, which takes one processor each.
    cat >"$work/parts.sh" <<'EOF'
device=$1 work=$2 parts=$(nproc 2>/dev/null || echo 2)
shift 2
[ "$parts" -le 14 ] || parts=14
for k in $(seq "$parts"); do
    ./elinvar-lab conformance --device "$device" --golden golden --part "$k/$parts" "$@" >"$work/part.$k" 2>&1 || touch "$work/bad" &
done
wait
for k in $(seq "$parts"); do cat "$work/part.$k"; done
cat "$work"/part.* | awk '/ passed, .* failed, .* skipped/ { p += $1; f += $3; s += $5 }
    END { print p " passed, " f " failed, " s " skipped, in all parts" }'
[ ! -e "$work/bad" ]
EOF
    set --
    for op in ${OPS:-}; do set -- "$@" --op "$op"; done
    step conformance 150 sh "$work/parts.sh" "$device" "$work" "$@"
    for model in mlp cnn transformer; do
        for on in "$device" cpu; do
            step "weights-$model-$on" 45 ./elinvar train digits --quiet --epochs 1 --batch 64 --seed 1 --model $model \
                --device "$on" --out "$work/train"
        done
    done
    # Calls of every kind, drawn by chance; of the cases, those of one op.
    step random 40 ./elinvar-lab conformance --device "$device" --op matmul --random 12
    # Launches and bytes of training steps, ratios that must hold, and what the time of these steps goes into.
    step count 20 ./elinvar-lab bench --count
    step gates 60 ./elinvar-lab gates --seconds "${BENCH_SECONDS:-0.2}"
    step profile 30 ./elinvar-lab bench --device "$device" --seconds "${BENCH_SECONDS:-0.2}" --profile training
    step bench 170 ./elinvar-lab bench --device "$device" --seconds "${BENCH_SECONDS:-0.2}"
    # The vendor's library of products may have come with a torch; products of any order are tried against it below.
    case $vendor in
        cuda) from_python ELINVAR_CUBLASLT_LIBRARY "nvidia/**/libcublasLt.so.*" ;;
        rocm) [ -d /opt/rocm/lib ] || from_python ELINVAR_HIPBLASLT_LIBRARY "torch/lib/libhipblaslt.so*" ;;
    esac
    # Products again, each with the tile that was fastest of all that were tried; and which these are.
    step bench-tuned 60 env ELINVAR_TUNE=1 ./elinvar-lab bench --device "$device" --seconds "${BENCH_SECONDS:-0.2}" gemm
    step large 60 ./elinvar-lab bench --device "$device" --seconds "${BENCH_SECONDS:-0.2}" large
    step large-tuned 50 env ELINVAR_TUNE=1 ./elinvar-lab bench --device "$device" --seconds "${BENCH_SECONDS:-0.2}" "i. large|gemm"
    # On a card that fetches boxes (Hopper), the same products without; elsewhere nothing changes.
    case $(cat "$work/gpu.out") in
        *H100* | *H200* | *H800* | *GH200* | *H20*)
            step large-fragments 25 env ELINVAR_CUDA_BOXES=0 ./elinvar-lab bench --device "$device" --seconds "${BENCH_SECONDS:-0.2}" "i. large|gemm_nn_fast" ;;
    esac
    step tiles 5 sh -c 'cat "$ELINVAR_CACHE_DIR"/*.tiles'
    # Without a torch that knows the GPU it says so, and nothing is lost.
    step torch 60 python3 torch_rows.py
    step torch-large 40 python3 torch_rows.py --large
    # The processor beside the GPU, with all of its cores.
    step cpu 60 ./elinvar-lab bench --device cpu --seconds "${CPU_SECONDS:-0.1}" gemm elementwise reductions attention
    step torch-cpu 60 python3 torch_rows.py --device cpu --seconds "${CPU_SECONDS:-0.1}"
    # NVIDIA's checkers on a part of the cases, where its tools are installed: accesses out of bounds, races in workgroups.
    [ "$vendor" != cuda ] || for tool in memcheck racecheck; do
        step "$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 ./elinvar-lab conformance --device "$device" \
            --op matmul --op softmax --op conv2d --op sort
    done

    # The weights of each model, on the device and on the processor.
    same=true
    for model in mlp cnn transformer; do
        a=$(tail -n 1 "$work/weights-$model-$device.out")
        b=$(tail -n 1 "$work/weights-$model-cpu.out")
        case $a in
            "weights sha256 "*) [ "$a" = "$b" ] || same=false ;;
            *) same=false ;;
        esac
    done
}

# Whole models: ours, plain and captured, with the peak of memory; then PyTorch's.
models() {
    tiny= torch_tiny= small='training |bert_fwd|'
    if [ "${TINY:-0}" = 1 ]; then tiny=1 torch_tiny=--tiny small='|train_mlp|'; fi
    # Not `seconds`, which each step sets to what it took.
    each=${BENCH_SECONDS:-0.5}
    step models 200 env ELINVAR_BENCH_TINY="$tiny" ./elinvar-lab bench --device "$device" --seconds "$each" --all models
    step models-small 60 ./elinvar-lab bench --device "$device" --seconds "$each" $small
    step models-count 20 ./elinvar-lab bench --count
    # Without a torch that knows the GPU it says so, and nothing is lost.
    step torch-models 230 python3 torch_models.py --device "${TORCH_DEVICE:-cuda}" --seconds "$each" $torch_tiny
}

same=true
if [ "$group" = models ]; then models; else everything; fi

# "rocm:0  exact  AMD Instinct MI300X, discrete GPU, ..."
name=$(awk -v device="$device" '$1 == device { sub(/^[^ ]+ +[^ ]+ +/, ""); sub(/,.*/, ""); print; exit }' "$work/devices.out")
[ -n "$name" ] || name=$device
[ "$group" = all ] || kind=-$group
file=$(printf '%s' "$name" | tr 'A-Z' 'a-z' | tr -c 'a-z0-9' '-' | sed 's/--*/-/g; s/-$//')${kind:-}-$(date -u +%Y-%m-%d)
{
    printf '{"device":%s,"date":"%s","same_weights":%s,"seconds":%s,"steps":{' \
        "$(string "$name")" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$same" "$(($(date +%s) - begun))"
    comma=
    while read -r name status seconds; do
        printf '%s\n"%s":{"status":%s,"seconds":%s,"lines":[' "$comma" "$name" "$status" "$seconds"
        # Of a report of thousands of lines, the end says what came of it.
        if [ "$name" = conformance ]; then tail -n 40 "$work/$name.out"; else cat "$work/$name.out"; fi | strings
        printf '],"errors":['
        tail -n 20 "$work/$name.err" | strings
        printf ']}'
        comma=,
    done <"$steps"
    printf '\n}}\n'
} >"$out/$file.json.part" && mv "$out/$file.json.part" "$out/$file.json"
{
    while read -r name status seconds; do
        echo "== $name: status $status, $seconds s"
        cat "$work/$name.out" "$work/$name.err"
    done <"$steps"
} >"$out/$file.log"
echo "$out/$file.json"
# What is not installed, or came too late, is no fault.
awk '/^(gpu|tiles|torch|torch-large|torch-cpu|torch-models) / || $2 == 0 { next } /^(memcheck|racecheck) / && $2 >= 124 { next } { bad = 1 }
    END { exit bad }' "$steps" && [ "$same" = true ]
