package command

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// exitUnread is the exit code of a program whose output nobody reads any more, as a shell tells it
// of a program that SIGPIPE ended.
const exitUnread = 128 + int(syscall.SIGPIPE)

// errUnread is the cause of the end of a program whose output nobody reads any more.
var errUnread = errors.New("nobody reads the output any more")

// Main runs a program with the signals, the streams and the arguments of this process, and returns
// its exit code. Ctrl-C, SIGTERM, a terminal that is closed and a pipe that nobody reads any more
// end the context and not the process, so that what a command has deferred is done: a command may
// have secrets in a folder for temporary files.
func Main(run func(context.Context, Streams, []string) int) int {
	return process(run, os.Stdin, os.Stdout, os.Stderr, os.Args[1:])
}

func process(run func(context.Context, Streams, []string) int, in, out, errs *os.File, args []string) int {
	parent, end := context.WithCancelCause(context.Background())
	defer end(nil)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(parent, ends...)
	defer stop()
	// Unless somebody takes SIGPIPE, Go ends the process at a write to a pipe that nobody reads. The
	// signal itself says nothing: a broken connection to an API sends it, too.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	code := run(ctx, Streams{In: in, Out: watched(out, end), Err: watched(errs, end)}, args)
	if errors.Is(context.Cause(ctx), errUnread) {
		return exitUnread
	}
	return code
}

// watched returns a stream of the process that ends a context once nobody reads it. One that cannot
// break, such as a terminal or a file, stays what it is.
func watched(f *os.File, end context.CancelCauseFunc) io.Writer {
	info, err := f.Stat()
	if err != nil || info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
		return f
	}
	return pipe{to: f, end: end}
}

// pipe has Write alone: other methods of a file would write past it.
type pipe struct {
	to  io.Writer
	end context.CancelCauseFunc
}

// Write implements io.Writer.
func (p pipe) Write(data []byte) (int, error) {
	n, err := p.to.Write(data)
	if errors.Is(err, syscall.EPIPE) {
		p.end(errUnread)
	}
	return n, err
}
