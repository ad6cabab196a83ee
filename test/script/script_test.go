// Package script runs the commands as a user does: each file in testdata is a
// session, with the required output.
package script

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast/holdfast/internal/agent"
	"github.com/holdfast/holdfast/internal/cli"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab/labcli"
)

var update = flag.Bool("update", false, "rewrite what the sessions expect; read the difference before you commit it")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"holdfast":     func() { os.Exit(cli.Run(context.Background(), streams(), os.Args[1:])) },
		"holdfast-lab": func() { os.Exit(labcli.Run(context.Background(), streams(), os.Args[1:])) },
		"holdfast-agent": func() {
			os.Exit(agent.Run(context.Background(), streams(), os.Args[1:]))
		},
	})
}

func streams() command.Streams {
	return command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
}

func TestSessions(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "mode": mode,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			program, err := exec.LookPath("holdfast")
			env.Setenv("HOLDFAST", program) // for sessions that install it elsewhere
			return err
		},
	})
}

// exits runs a command that must end with an exit status: exits CODE COMMAND...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// mode checks a file's permissions: mode 0600 FILE...
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: mode MODE FILE...")
	}
	want, err := strconv.ParseUint(args[0], 8, 32)
	ts.Check(err)
	for _, file := range args[1:] {
		info, err := os.Stat(ts.MkAbs(file))
		ts.Check(err)
		if uint64(info.Mode().Perm()) != want {
			ts.Fatalf("%s has mode %04o, want %s", file, info.Mode().Perm(), args[0])
		}
	}
}
