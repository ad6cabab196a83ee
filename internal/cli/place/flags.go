package place

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Flags name a place on a command line. A command declares those that it can
// work with.
type Flags struct {
	// Kubeconfig is the path of a kubeconfig, empty for the usual one.
	Kubeconfig string
	// Lab is the name of a lab.
	Lab string
	// Hosts are names of hosts. Exec is the command that reaches one of them.
	Hosts []string
	Exec  string

	root       string // of this host; tests set it
	takesLab   bool
	takesHosts bool
}

// DefaultExec is the way in which most sites reach a host.
const DefaultExec = "ssh root@{}"

const (
	kubeconfigHelp = "kubeconfig of the cluster; empty for $KUBECONFIG, else this host's " + state.AdminKubeconfig + ", else ~/.kube/config"
	ownHelp        = "kubeconfig of the cluster; empty for this host's " + state.AdminKubeconfig
	folderHelp     = "kubeconfig of the cluster; empty for auth/kubeconfig of the install directory"
	labHelp        = "work on the lab of this name instead: its API and its hosts"
	hostsHelp      = "ask these hosts through --exec: their node names, comma-separated"
	execHelp       = "command that runs another one as root on a host of --hosts; {} is its node name"
)

// DeclareKubeconfig declares --kubeconfig.
func (f *Flags) DeclareKubeconfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", kubeconfigHelp)
}

// DeclareOwnKubeconfig declares --kubeconfig for a command that writes what only
// this host has, such as the account of a BMC, into the cluster: the environment
// must not lead it to another cluster.
func (f *Flags) DeclareOwnKubeconfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", ownHelp)
}

// DeclareFolderKubeconfig declares --kubeconfig for a command that works on an
// install directory, which has a kubeconfig of its own.
func (f *Flags) DeclareFolderKubeconfig(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", folderHelp)
}

// DeclareLab declares --lab.
func (f *Flags) DeclareLab(cmd *cobra.Command) {
	f.takesLab = true
	cmd.Flags().StringVar(&f.Lab, "lab", "", labHelp)
}

// DeclareHosts declares --hosts and --exec.
func (f *Flags) DeclareHosts(cmd *cobra.Command) {
	f.takesHosts = true
	cmd.Flags().StringSliceVar(&f.Hosts, "hosts", nil, hostsHelp)
	cmd.Flags().StringVar(&f.Exec, "exec", DefaultExec, execHelp)
}

// Check returns all mistakes at once, after others that the command found.
func (f *Flags) Check(others ...error) error {
	mistakes := others
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	if f.Lab != "" && (f.Kubeconfig != "" || len(f.Hosts) > 0) {
		wrong("--lab: cannot be combined with --kubeconfig or --hosts: a lab has both")
	}
	if f.Kubeconfig != "" {
		if _, err := os.Stat(f.Kubeconfig); err != nil {
			wrong("--kubeconfig: %w", err)
		}
	}
	for i, name := range f.Hosts {
		if name == "" {
			wrong("--hosts: a name is empty")
		} else if slices.Contains(f.Hosts[:i], name) {
			wrong("--hosts: %s is named twice", name)
		}
	}
	if f.takesHosts && !strings.Contains(f.Exec, "{}") {
		wrong("--exec: {} must stand where the name of the host belongs")
	}
	if err := errors.Join(mistakes...); err != nil {
		return &command.UsageError{Err: err}
	}
	return nil
}

// ways returns the flags that lead to a cluster, for an error about none.
func (f *Flags) ways() string {
	out := "give --kubeconfig"
	if f.takesHosts {
		out += " or --hosts"
	}
	if f.takesLab {
		out += " or --lab"
	}
	return out
}
