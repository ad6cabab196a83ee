// Command etcd-standin casts the vote of a fenced etcd member for the survivor
// of a two-voter cluster. README.md has its contract.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/holdfast/holdfast/payload/standin/inspect"
	"github.com/holdfast/holdfast/payload/standin/settle"
	"github.com/holdfast/holdfast/payload/standin/takeover"
)

const usage = `Cast the vote of a fenced etcd member for the survivor of two voters, have the
survivor remove that member, and end.

Usage: etcd-standin [-v] < request.json
       etcd-standin settle -data-dir DIR
       etcd-standin settle-all -data-dir DIR
       etcd-standin inspect -data-dir DIR

Settle is for an etcd that is down, before it is started again: it records up to
which index the database proves the log to be committed, and refuses a log that
lost its end. Settle-all records the end of the log, for a copy of the data of the last
member, which goes on without all others. Inspect describes the data directory as JSON and changes nothing;
it refuses while etcd runs.

The request is JSON on stdin, the result is JSON on stdout. Exit codes: 0 done
or nothing to do, 2 wrong request, 3 refused, 4 unfinished (run again), 5 the log
lost its end (settle).

Use it only after a confirmed fence, and only if the survivor is eligible, which
means that it holds every acknowledged write. Example of a request:

  {"evidence": "fence-17", "cluster": "cdf818194e3a8c32",
   "target": "8211f1d0f64f3269", "survivor": "91bc3c398fb3c146",
   "peerURL": "https://192.0.2.11:2380", "clientURL": "https://192.0.2.11:2379",
   "tls": {"ca": "/etc/etcd/ca.crt", "cert": "/etc/etcd/peer.crt", "key": "/etc/etcd/peer.key"}}

`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	cancel()
	os.Exit(code)
}

func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	flags := flag.NewFlagSet("etcd-standin", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { say(errs, usage); flags.PrintDefaults() }
	verbose := flags.Bool("v", false, "write the log of etcd's transport to stderr")
	dir := flags.String("data-dir", "", "etcd's data directory, for settle, settle-all and inspect")
	showVersion := flags.Bool("version", false, "print the version of etcd whose protocol this program speaks, and exit")
	var examine func(dir string, out, errs io.Writer) int
	if len(args) > 0 {
		examine = map[string]func(string, io.Writer, io.Writer) int{
			"settle": settles(settle.Settle), "settle-all": settles(settle.All), "inspect": inspectCopy,
		}[args[0]]
	}
	if examine != nil {
		args = args[1:]
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return takeover.ExitDone
	case err != nil || flags.NArg() > 0 || (examine != nil) != (*dir != ""):
		say(errs, "etcd-standin: see -help\n")
		return takeover.ExitUsage
	case *showVersion:
		say(out, version.Version+"\n")
		return takeover.ExitDone
	case examine != nil:
		return examine(*dir, out, errs)
	}
	return takeOver(ctx, in, out, errs, *verbose)
}

// settles runs `etcd-standin settle` and `settle-all`.
func settles(raise func(dir string) (settle.Log, error)) func(dir string, out, errs io.Writer) int {
	return func(dir string, out, errs io.Writer) int {
		log, err := raise(dir)
		if err != nil {
			say(errs, fmt.Sprintf("etcd-standin: settle %s: %v\n", dir, err))
			if errors.Is(err, settle.ErrLogShort) {
				return takeover.ExitLogShort
			}
			return takeover.ExitRefused
		}
		return write(log, takeover.ExitDone, out, errs)
	}
}

// inspectCopy runs `etcd-standin inspect`.
func inspectCopy(dir string, out, errs io.Writer) int {
	debug.SetGCPercent(400) // a whole log passes through; time matters more than 100 MB
	data, err := inspect.Inspect(dir)
	if err != nil {
		say(errs, fmt.Sprintf("etcd-standin: inspect %s: %v\n", dir, err))
		if errors.Is(err, inspect.ErrRuns) {
			return takeover.ExitRefused
		}
		return takeover.ExitFailed
	}
	return write(data, takeover.ExitDone, out, errs)
}

// takeOver runs etcd-standin without a subcommand.
func takeOver(ctx context.Context, in io.Reader, out, errs io.Writer, verbose bool) int {
	req, err := takeover.Read(in)
	if err != nil {
		say(errs, fmt.Sprintf("etcd-standin: wrong request:\n%v\n", err))
		return takeover.ExitUsage
	}
	result := takeover.Run(ctx, req, logger(verbose, errs))
	return write(result, result.ExitCode(), out, errs)
}

// write writes a result and returns the given exit code, or ExitFailed if
// writing fails.
func write(result any, code int, out, errs io.Writer) int {
	if err := json.NewEncoder(out).Encode(result); err != nil {
		say(errs, fmt.Sprintf("etcd-standin: write the result: %v\n", err))
		return takeover.ExitFailed
	}
	return code
}

// say writes for people. It ignores errors, because it has no other way to
// report them.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// logger returns the logger of etcd's transport.
func logger(verbose bool, w io.Writer) *zap.Logger {
	if !verbose {
		return zap.NewNop()
	}
	encoder := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(w), zap.DebugLevel))
}
