// Package labcli is the command line of the lab: the program holdfast-lab,
// which users call as `holdfast lab`.
package labcli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/labprogram"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
)

// defaultLab is the name of the lab if a command names none.
const defaultLab = "default"

// labRoot returns the directory of all labs: HOLDFAST_LABS, else the default.
func labRoot() string {
	if dir := os.Getenv("HOLDFAST_LABS"); dir != "" {
		if whole, err := filepath.Abs(dir); err == nil {
			return whole
		}
		return dir
	}
	return lab.DefaultRoot
}

// Run executes one command line and returns the process's exit code.
func Run(ctx context.Context, streams command.Streams, args []string) int {
	return command.Run(ctx, newRoot(streams), streams, args)
}

func newRoot(streams command.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   labprogram.Name,
		Short: "A whole site on this machine: bring it up, inspect it, break it, remove it",
		Long: `A lab is a whole site on this machine: hosts that are system containers with
networks and BMCs of their own, installed by the same installer that a real
site uses. It needs root, leaves the machine's own network alone, and 'lab down'
leaves nothing behind.`,
		Example: `  holdfast lab up                          two control planes, ready to use
  holdfast lab up --name edge --control-planes 1 --workers 2
  holdfast lab kubectl -- get nodes
  holdfast lab fault power-cut cp-2
  holdfast lab status
  holdfast lab down`,
		// Users call it by this name, so help and errors use it too.
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "holdfast lab"},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true}, // holdfast itself completes this too
	}
	name := root.PersistentFlags().String("name", envOr("HOLDFAST_LAB", defaultLab), "name of the lab (or HOLDFAST_LAB)")
	for _, add := range []func(command.Streams, *string) *cobra.Command{
		newUp, newDown, newStatus, newList, newKubectl, newShell, newExec,
		newLogs, newPower, newSwap, newMove, newIgnition, newMachine, newInstallConfig, newFault, newKubeconfig, newPlace, newDaemon,
	} {
		root.AddCommand(add(streams, name))
	}
	return root
}

func envOr(key, fallback string) string {
	if v := os.Getenv(key); v != "" {
		return v
	}
	return fallback
}

// openLab opens a lab, checks that it has the named hosts, and makes sure that
// its daemon runs.
func openLab(cmd *cobra.Command, name string, hosts ...string) (*lab.Lab, *lab.Client, error) {
	if err := needRoot(); err != nil {
		return nil, nil, err
	}
	b, err := lab.Open(labRoot(), name)
	if err != nil {
		return nil, nil, err
	}
	for _, h := range hosts {
		if _, err := hostOf(b, h); err != nil {
			return nil, nil, err
		}
	}
	c, err := b.EnsureDaemon(cmd.Context(), lab.SelfLauncher)
	return b, c, err
}

// hostOf returns the host of a lab that the user named.
func hostOf(b *lab.Lab, name string) (lab.Host, error) {
	h, ok := b.Layout.Host(name)
	if !ok {
		return h, &command.UsageError{Err: fmt.Errorf("host %q: lab %s has no such host (see 'holdfast lab status')", name, b.Layout.Spec.Name)}
	}
	return h, nil
}

func needRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("a lab needs root: run the command with sudo")
	}
	return nil
}
