#!/usr/bin/env python3
"""Who may call whom, and what the library must not do: enforced from the sources and from the built library.

    check.py BUILD      one line a rule; the last line counts them; non-zero when one is broken

Each rule also meets small texts that break it, so that a rule which finds nothing anywhere is noticed.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# A folder may include its own headers and those of the folders named here, in quotes; <clattn/...> everywhere but in
# the oracle.
MAY_INCLUDE = {
    'host/base': [],
    'host/gemm': ['base'],
    'host/attention': ['base', 'gemm'],
    'host/nn': ['base', 'gemm', 'attention'],
    'include/clattn': [],
    'tests/reference': [],
    'tests/api': ['support', 'reference'],
}
ROOMS = ['base', 'gemm', 'attention', 'nn']

C11 = '''assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype'''.split()


def sources():
    files = {}
    for pattern in ('host/*/*.[ch]', 'cl/*/*.cl', 'cl/*/*.h', 'include/*/*.h', 'tools/**/*.[ch]', 'tests/**/*.[ch]',
                    'tests/**/*.cpp', 'tests/**/*.cl'):
        for path in ROOT.glob(pattern):
            files[path.relative_to(ROOT).as_posix()] = path.read_text(encoding='utf-8')
    return files


def blank(match):
    return re.sub(r'[^\n]', ' ', match.group())


COMMENT = r'/\*.*?\*/|//[^\n]*'
STRING = r'"(?:\\.|[^"\\\n])*"'
CHARACTER = r"'(?:\\.|[^'\\\n])+'"


def without_comments(text):
    return re.sub(f'{STRING}|{CHARACTER}|{COMMENT}',
                  lambda m: blank(m) if m.group()[0] == '/' else m.group(), text, flags=re.S)


def code_only(text):
    """The text without comments and strings, line for line; include lines stay."""
    return re.sub(f'^[ \t]*#[ \t]*include[^\n]*|{STRING}|{CHARACTER}|{COMMENT}',
                  lambda m: m.group() if m.group().lstrip().startswith('#') else blank(m), text, flags=re.S | re.M)


def lines_with(pattern, text):
    for match in re.finditer(pattern, text):
        yield text.count('\n', 0, match.start()) + 1, match


def folder_of(path):
    return path.rsplit('/', 1)[0]


def includes(text):
    for line, m in lines_with(r'(?m)^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', without_comments(text)):
        yield line, m.group(1), m.group(2)


def family_of(path):
    match = re.search(r'(?:^|/)family_([a-z]+)\.[ch]$', path)
    return match and match.group(1)


def includes_stay_below(files):
    for path, text in files.items():
        allowed = MAY_INCLUDE.get(folder_of(path))
        for line, quote, name in includes(text):
            room = name.split('/')[0] if '/' in name else None
            if path.startswith('tools/') and quote == '"' and room in ROOMS and not (ROOT / 'tools' / name).exists():
                yield path, line, f'a tool includes {name}, which is not a public header'
            if allowed is None:
                continue
            if quote == '<' and room == 'clattn' and folder_of(path) == 'tests/reference':
                yield path, line, f'the oracle shares no code, and includes {name}'
            if quote == '"' and room not in (None, folder_of(path).split('/')[1], *allowed):
                yield path, line, f'{folder_of(path)} includes {name}'


def families_are_apart(files):
    families = {family_of(path) for path in files if path.startswith('host/attention/')} - {None}
    for path, text in files.items():
        own = family_of(path)
        if not own or not path.startswith('host/'):
            continue
        for line, _, name in includes(text):
            if family_of(name) not in (None, own):
                yield path, line, f'family {own} includes {name}'
        for line, m in lines_with(r'"attention/([a-z]+)\.cl"', without_comments(text)):
            if m.group(1) in families - {own}:
                yield path, line, f'family {own} takes the kernels of {m.group(1)}'


def kernels_come_from_own_room(files):
    for path, text in files.items():
        room = re.match(r'host/(gemm|attention|nn)/', path)
        for line, m in lines_with(r'"([a-z_]+)/[a-z_0-9]+\.cl"', without_comments(text)) if room else ():
            if m.group(1) not in ('base', room.group(1)):
                yield path, line, f'{room.group(1)} takes the kernel {m.group()}'


def only(name, pattern, allowed, what):
    """The rule that `pattern` stands in no code of host/ but in the files that `allowed` matches."""
    def rule(files):
        for path, text in files.items():
            if path.startswith('host/') and path.endswith('.c') and not re.fullmatch(allowed, path):
                for line, m in lines_with(pattern, code_only(text)):
                    yield path, line, f'{m.group().strip(" (")}: {what}'
    rule.__name__ = name
    return rule


device_asks = only(
    'device_asks', r'\bcl(GetDeviceInfo|GetPlatformInfo|GetDeviceIDs|GetPlatformIDs)\s*\(', r'host/base/(device|facts)\.c',
    'only base/device.c and base/facts.c ask the device')
program_builds = only(
    'program_builds', r'\bcl(BuildProgram|CompileProgram|LinkProgram|CreateProgramWith\w+|CreateKernel\w*)\s*\(',
    r'host/base/program\.c', 'only base/program.c builds programs')
rooms_enqueue = only(
    'rooms_enqueue', r'\b(ca_kernel_enqueue|clEnqueueNDRangeKernel|clEnqueueTask|clEnqueueNativeKernel)\s*\(',
    r'host/base/(program|features)\.c|host/attention/(family_[a-z]+|fused|weights)\.c|host/(gemm|nn)/\w+\.c',
    'only families (fused is two of them), weights, gemm, nn and the proofs of features enqueue kernels')
ndrange_once = only(
    'ndrange_once', r'\bclEnqueueNDRangeKernel\s*\(', r'host/base/program\.c',
    'kernels are enqueued by ca_kernel_enqueue')
silent = only(
    'silent', r'\b(v?f?printf|f?puts|f?putc|putchar|perror|psignal|fwrite|exit|_Exit|_exit|quick_exit|abort|'
    r'secure_getenv|getenv|setenv|putenv|system|signal|stdout|stderr)\b(?=\s*[(,;)])', r'',
    'the library never prints, exits or reads the environment')
clblast_calls = only(
    'clblast_calls', r'\bCLBlast\w+\s*\(|clblast_c\.h', r'host/gemm/\w+\.c', 'only gemm calls CLBlast')


def c11_headers_only(files):
    for path, text in files.items():
        if path.startswith(('host/', 'include/')) and path != 'host/base/os.c':
            for line, quote, name in includes(text):
                known = name.removesuffix('.h') in C11 or name.startswith(('clattn/', 'CL/', 'OpenCL/'))
                if quote == '<' and not known and not (name == 'clblast_c.h' and path.startswith('host/gemm/')):
                    yield path, line, f'<{name}> is not C11; the operating system is for base/os.c'


def later_calls():
    header = next(p for p in map(Path, ('/usr/include/CL/cl.h', '/usr/local/include/CL/cl.h')) if p.exists())
    text = header.read_text()
    later = set()
    for m in re.finditer(r'\b(cl[A-Z]\w+)\s*\([^;]*?\)\s*((?:CL_\w+\s*)*);', text):
        if re.search(r'CL_API_SUFFIX__VERSION_[23]_\d\b(?!_DEPRECATED)', m.group(2)):
            later.add(m.group(1))
    assert {'clCreateCommandQueueWithProperties', 'clSVMAlloc', 'clSetKernelArgSVMPointer'} <= later, later
    return later


def opencl_12_only(files):
    later = later_calls()
    for path, text in files.items():
        if path.startswith('host/'):
            for line, m in lines_with(r'\bcl[A-Z]\w+(?=\s*\()', code_only(text)):
                if m.group() in later:
                    yield path, line, f'{m.group()} is later than OpenCL 1.2: look it up instead'


def arithmetic_is_exact(files):
    for path, text in files.items():
        if path.startswith(('host/', 'cl/', 'tools/')):
            for line, m in lines_with(r'-cl-(fast-relaxed-math|finite-math-only|unsafe-math-optimizations)\b',
                                      without_comments(text)):
                yield path, line, f'{m.group()} breaks masks'


def rooms_say_what_they_own(files):
    for path, text in files.items():
        if not text.startswith(('/*', '//')):
            yield path, 1, 'does not open with what it owns and who calls it'
        if path.startswith(('host/', 'cl/', 'tools/', 'tests/')) and text.count('\n') > 600:
            yield path, 601, f'{text.count(chr(10))} lines: more than 600'
        for line, m in lines_with(r'\b(TODO|FIXME|XXX)\b', text):
            yield path, line, f'{m.group()} left open'


# rule, and texts that break it
RULES = [
    (includes_stay_below, [('host/base/a.c', '#include "gemm/gemm.h"\n'), ('host/gemm/a.c', '#include "attention/a.h"\n'),
                           ('host/attention/a.c', '/* */ \n# include "nn/nn.h"\n'), ('tools/a.c', '#include "base/os.h"\n'),
                           ('tests/reference/a.c', '#include <clattn/nn.h>\n'), ('tests/api/a.c', '#include "base/os.h"\n'),
                           ('include/clattn/a.h', '#include "base/os.h"\n')]),
    (families_are_apart, [('host/attention/family_a.c', '#include "attention/family_b.h"\n')]),
    (kernels_come_from_own_room, [('host/gemm/a.c', 'f("nn/heads.cl");'), ('host/attention/a.c', 'f("gemm/a.cl");')]),
    (device_asks, [('host/base/context.c', 'int e = clGetDeviceInfo(d, 0);')]),
    (program_builds, [('host/nn/a.c', 'clBuildProgram (p);'), ('host/gemm/a.c', 'clCreateKernel(p, "");')]),
    (rooms_enqueue, [('host/attention/plan.c', 'ca_kernel_enqueue(q);'), ('host/base/context.c', 'clEnqueueTask(q);')]),
    (ndrange_once, [('host/gemm/a.c', 'clEnqueueNDRangeKernel(q);')]),
    (silent, [('host/base/a.c', f'void f(void) {{ {call}; }}') for call in
              ('printf("x")', 'exit(1)', 'abort()', 'getenv("A")', 'fputs("", stderr)', 'perror("x")')]),
    (clblast_calls, [('host/nn/a.c', '#include <clblast_c.h>\n'), ('host/attention/a.c', 'CLBlastSgemm(a);')]),
    (c11_headers_only, [('host/base/a.c', '#include <pthread.h>\n'), ('host/nn/a.c', '#include <clblast_c.h>\n'),
                        ('include/clattn/a.h', '#include <unistd.h>\n')]),
    (opencl_12_only, [('host/base/a.c', 'q = clCreateCommandQueueWithProperties(c, d, 0, &e);')]),
    (arithmetic_is_exact, [('host/gemm/a.c', 'f("-cl-fast-relaxed-math");')]),
    (rooms_say_what_they_own, [('host/base/a.c', 'int a;\n'), ('cl/nn/a.cl', '/* a */\n' + '\n' * 600),
                               ('tools/a.c', '/* a\n TO' + 'DO */')]),
]
INNOCENT = {'host/base/a.c': '/* printf(1), getenv("x") */ char *s = "exit(1) clBuildProgram(p)"; int n = snprintf(0, 0, s);\n'}


def names_in(library, *options):
    return subprocess.run(['nm', *options, str(library)], check=True, capture_output=True, text=True).stdout


def library_rules(build):
    """Complaints about the built library, rule by rule."""
    undefined = re.findall(r' U (cl[A-Z]\w+)', names_in(build / 'libclattn.so', '-D', '--undefined-only'))
    yield ('links_opencl_12_only', [f'linked: {name}' for name in undefined if name in later_calls()] or
           ([] if undefined else ['no OpenCL call at all is linked']))
    defined = re.findall(r' [TDBRC] (\w+)', names_in(build / 'libclattn.a', '-g', '--defined-only'))
    yield ('global_names_tell_the_layer', [f'defined: {name}' for name in defined if not re.match('clattn_|ca_', name)] or
           ([] if defined else ['no name is defined']))


def headers_alone():
    """Each public header compiles alone, as C11 and as C++11, with every compiler there is."""
    with tempfile.TemporaryDirectory() as folder:
        for compilers, suffix, standard in ((('gcc', 'clang'), 'c', 'c11'), (('g++', 'clang++'), 'cpp', 'c++11')):
            for compiler in compilers:
                complaints = []
                for header in sorted((ROOT / 'include/clattn').glob('*.h')):
                    source = Path(folder) / f'a.{suffix}'
                    source.write_text(f'#include <clattn/{header.name}>\n#include <clattn/{header.name}>\n')
                    run = subprocess.run([compiler, f'-std={standard}', '-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Werror',
                                          '-fsyntax-only', f'-I{ROOT}/include', str(source)], capture_output=True, text=True)
                    if run.returncode:
                        complaints.append(f'{header.name}: {run.stderr.strip()}')
                yield f'headers_stand_alone_in_{standard}_{compiler}', complaints


def main():
    if len(sys.argv) != 2:
        sys.exit('usage: check.py BUILD')
    files = sources()
    results = [] if any(p.startswith('host/') for p in files) else [('sources_are_found', ['no file in host/'])]
    for rule, broken in RULES:
        complaints = [f'{path}:{line}: {text}' for path, line, text in rule(files)]
        if rule is families_are_apart:
            broken = [dict(broken + [('host/attention/family_b.c', '')])]
        else:
            broken = [{path: text} for path, text in broken]
        complaints += [f'the rule does not notice {sample}' for sample in broken if not list(rule(sample))]
        if rule is not rooms_say_what_they_own:
            complaints += [f'the rule refuses what is innocent: {c}' for c in rule(INNOCENT)]
        results.append((rule.__name__, complaints))
    results += library_rules(Path(sys.argv[1]))
    results += headers_alone()

    for name, complaints in results:
        print(f'{"FAILED" if complaints else "ok"}: {name}')
        for complaint in complaints:
            print('    ' + complaint.replace('\n', '\n    '))
    failed = sum(bool(complaints) for _, complaints in results)
    print(f'{len(results) - failed} passed, {failed} failed')
    sys.exit(failed > 0)


if __name__ == '__main__':
    main()
