package operator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/operator"
)

// inputWait bounds how long kubelet may take to show the newest input: it brings
// a changed Secret to a pod within about a minute.
const inputWait = 2 * time.Minute

// job is one step on this host, from within a container.
type job struct {
	step, input, digest string
	// root is the host's root as seen by a container that shares the host's
	// process ids.
	root    string
	command []string
	// last is the file in which kubelet looks for the reason of a failure.
	last    string
	streams command.Streams
}

// onHost enters the host's namespaces with the host's own program, because none
// of the container's exists below the host's root.
var onHost = []string{
	"/usr/bin/nsenter", "-t", "1", "-m", "-u", "-n", "-i", "-p", "--",
	"/usr/local/bin/holdfast-agent", "two-node",
}

func newJob(streams command.Streams) *cobra.Command {
	j := job{root: "/proc/1/root", command: onHost, last: "/dev/termination-log", streams: streams}
	cmd := &cobra.Command{
		Use:   "job STEP",
		Short: "Carry out one step of setting up two control planes on this host",
		Long: `Carry out one step of setting up two control planes on the host of this
container: run holdfast-agent two-node STEP there, as the host's root. The
operator makes the Jobs that run this; the container is privileged and shares
the process ids of its host.

Steps: ` + strings.Join(stepNames(), ", "),
		Example: `  # what a Job of the operator runs
  holdfast-operator job auth --input /run/holdfast-input/input.json`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: stepNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			j.step = args[0]
			return j.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&j.input, "input", "", "file with the step's input")
	cmd.Flags().StringVar(&j.digest, "digest", "", "SHA-256 of that file; while it is an older file, wait")
	_ = cmd.MarkFlagRequired("input") // the flag is there
	return cmd
}

func stepNames() []string {
	var out []string
	for _, s := range handover.Steps() {
		out = append(out, string(s))
	}
	return out
}

func (j job) run(ctx context.Context) error {
	input, err := j.read(ctx)
	if err != nil {
		return err
	}
	hide, err := hiding(input)
	if err != nil {
		return err
	}
	log := &shared{to: j.streams.Err}
	out, words := &cleaner{to: log, hide: hide}, &cleaner{to: log, hide: hide}
	_, err = host.Run(ctx, host.Cmd{
		Name: j.command[0], Args: append(slices.Clone(j.command[1:]), j.step),
		Chroot: j.root, Stdin: bytes.NewReader(input), Stdout: out, Stderr: words,
	})
	out.flush()
	words.flush()
	if err == nil {
		return nil
	}
	code, reason := host.ExitCode(err), lastWords(err, hide)
	said := fmt.Errorf("step %s failed on this host (exit code %d)", j.step, code)
	if os.WriteFile(j.last, []byte(reason), state.DefaultFileMode) != nil {
		said = errors.New(reason) // kubelet takes the log's end then
	}
	if code == command.ExitRefused { // the operator repeats all other failures
		return &command.Coded{Err: said, Code: code}
	}
	return said
}

// lastWords returns the end of the step's output. Its command line says nothing,
// and the pod's termination message holds 4 kB: the end is what counts.
func lastWords(err error, hide *strings.Replacer) string {
	failed, ok := errors.AsType[*host.RunError](err)
	if !ok || strings.TrimSpace(failed.Output) == "" {
		return hide.Replace(err.Error())
	}
	words := strings.TrimSpace(failed.Output)
	if len(words) > maxWords {
		words = "... " + words[len(words)-maxWords:]
	}
	return hide.Replace(words)
}

const maxWords = 1500

// read waits for the input for which the Job was made, and reads it.
func (j job) read(ctx context.Context) ([]byte, error) {
	end, stop := context.WithTimeoutCause(ctx, inputWait, errors.New("the file is still an older one"))
	defer stop()
	for {
		data, err := os.ReadFile(j.input)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err == nil && cmp.Or(j.digest, render.InputDigest(data)) == render.InputDigest(data) {
			return data, nil
		}
		if host.Sleep(end, time.Second) != nil {
			return nil, fmt.Errorf("wait for the input of this Job: %w", cmp.Or(err, context.Cause(end)))
		}
	}
}

// hiding returns a replacer of the secrets in an input.
func hiding(input []byte) (*strings.Replacer, error) {
	var in twonode.Input
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, fmt.Errorf("read the input of this Job: %w", err)
	}
	secrets := []string{in.Token}
	for _, d := range in.Fencing {
		secrets = append(secrets, d.Password)
	}
	var pairs []string
	for _, s := range slices.DeleteFunc(secrets, func(s string) bool { return s == "" }) {
		pairs = append(pairs, s, "<redacted>")
	}
	return strings.NewReplacer(pairs...), nil
}
