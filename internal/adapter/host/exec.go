package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Cmd is one process to run. Errors show Args, so never put a secret there:
// pass it through Stdin, Env or a file.
type Cmd struct {
	Name string
	Args []string
	// Dir is the working directory; empty means the caller's, or the root below
	// Chroot.
	Dir string
	// Chroot is the root directory of the process; empty means the caller's.
	// Name is a path below it.
	Chroot string
	// Env is added to the caller's environment, as KEY=value.
	Env []string
	// Stdin is the input of the process; nil means no input.
	Stdin io.Reader
	// Stdout receives the output as it comes, in place of Run's return value.
	Stdout io.Writer
	// Stderr receives the error output as it comes, in addition to the copy in
	// an error.
	Stderr io.Writer
	// Grace is the time that the process gets to end after SIGTERM, when the
	// context ends. Zero means two seconds.
	Grace time.Duration
}

// Command returns a Cmd with a name and arguments.
func Command(name string, args ...string) Cmd { return Cmd{Name: name, Args: args} }

// String returns the command line as a person would type it.
func (c Cmd) String() string {
	words := make([]string, 0, len(c.Args)+1)
	for _, w := range append([]string{c.Name}, c.Args...) {
		if w == "" || strings.ContainsAny(w, " \t\n\"'\\$&|;<>(){}*?#~`!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

// RunError reports which command failed, its exit code and the end of its
// output.
type RunError struct {
	Cmd Cmd
	// ExitCode is -1 if the process did not start or was ended by a signal.
	ExitCode int
	// Output is the end of the process's output, at most maxErrorOutput bytes.
	Output string
	Err    error
}

// maxErrorOutput bounds the output in an error, in bytes.
const maxErrorOutput = 8 << 10

func (e *RunError) Error() string {
	out := strings.TrimSpace(e.Output)
	if out == "" {
		return fmt.Sprintf("run %s: %v", e.Cmd, e.Err)
	}
	return fmt.Sprintf("run %s: %v: %s", e.Cmd, e.Err, out)
}

func (e *RunError) Unwrap() error { return e.Err }

// ExitCode returns the exit code within err, or -1 if err holds none.
func ExitCode(err error) int {
	if re, ok := errors.AsType[*RunError](err); ok {
		return re.ExitCode
	}
	return -1
}

// exitNoProgram is the exit code of a shell, and of what runs a command elsewhere,
// for a program that does not exist.
const exitNoProgram = 127

// NoProgram reports whether a command failed because its program does not exist.
func NoProgram(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || ExitCode(err) == exitNoProgram
}

// Run runs a command to its end and returns its standard output. When the
// context ends, Run sends SIGTERM to the process and kills it after Grace. The
// error is a *RunError.
func Run(ctx context.Context, c Cmd) ([]byte, error) {
	var out bytes.Buffer
	words := &tail{max: maxErrorOutput}
	cmd := exec.CommandContext(ctx, c.program(), c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.environ()
	if c.Chroot != "" {
		cmd.Dir = cmp.Or(c.Dir, "/")
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.Chroot}
	}
	cmd.Stdin = c.Stdin
	cmd.Stdout = io.Writer(&out)
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.Stderr = io.Writer(words)
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(words, c.Stderr)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	if c.Grace > 0 {
		cmd.WaitDelay = c.Grace
	}
	err := cmd.Run()
	if err == nil {
		return out.Bytes(), nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	said := words.String()
	if said == "" {
		said = lastBytes(out.Bytes(), maxErrorOutput)
	}
	return out.Bytes(), &RunError{Cmd: c, ExitCode: cmd.ProcessState.ExitCode(), Output: said, Err: err}
}

// tail keeps the last max bytes written to it.
type tail struct {
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.buf) }

func lastBytes(b []byte, n int) string {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}
