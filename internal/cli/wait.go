package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// waitFlags holds the flags of `wait-for`.
type waitFlags struct {
	dir          string
	api          string
	configServer string
	output       string
	timeout      time.Duration
}

func newWaitFor(streams Streams) *cobra.Command {
	group := &cobra.Command{
		Use:   "wait-for",
		Short: "Wait for a site's installation and show what its hosts are doing",
	}
	group.AddCommand(
		newWaitForGoal(streams, installation.BootstrapComplete, "Wait until all control planes are ready", 30*time.Minute,
			`Wait until all control planes of the site are ready, showing what each host is
doing. After the timeout, show where each host is stuck.`),
		newWaitForGoal(streams, installation.InstallComplete, "Wait until every host is installed", time.Hour,
			`Wait until every host of the install configuration is installed, showing what
each host is doing. After the timeout, show where each host is stuck.`),
	)
	return group
}

func newWaitForGoal(streams Streams, goal installation.Goal, short string, timeout time.Duration, long string) *cobra.Command {
	f := waitFlags{dir: ".", timeout: timeout}
	cmd := &cobra.Command{
		Use: string(goal), Short: short, Long: long,
		Example: fmt.Sprintf(`  holdfast wait-for %[1]s --dir store-17
  holdfast wait-for %[1]s --timeout 0s -o json      show the state once

  # through forwarders, as a lab has them (holdfast lab status -o json)
  holdfast wait-for %[1]s --dir store-17 \
    --config-server 127.0.0.1:22623 --api https://127.0.0.1:6443`, goal),
		Args: cobra.NoArgs,
	}
	command.OutputFlag(cmd, &f.output)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runWaitFor(cmd.Context(), streams, goal, f) }
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "dir", f.dir, "install directory")
	flags.StringVar(&f.api, "api", "", "URL of the API, if this machine reaches it at another address than the site does")
	flags.StringVar(&f.configServer, "config-server", "", "HOST:PORT of the configuration server, if this machine reaches it at another address")
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "how long to wait")
	return cmd
}

func runWaitFor(ctx context.Context, streams Streams, goal installation.Goal, f waitFlags) error {
	if err := f.check(); err != nil {
		return &UsageError{Err: err}
	}
	s, err := newInstaller(streams, f.dir).Made()
	if err != nil {
		return createError(err)
	}
	view := command.NewView(streams.Err)
	w := &installer.Waiter{
		Hosts: f.progress(s), Marks: f.marks(s), Now: time.Now,
		Show: func(hosts []state.Progress, since time.Duration) { view.Show(progressLines(hosts), since) },
	}
	outcome, err := w.Wait(ctx, goal, s, f.timeout)
	view.End()
	if f.output == "json" {
		if err := command.PrintJSON(streams.Out, outcome); err != nil {
			return err
		}
	}
	if err != nil {
		return waitError(outcome, f.timeout, err)
	}
	return sayComplete(streams, outcome, f, s.Topology().Fencing)
}

// check rejects invalid overrides.
func (f waitFlags) check() error {
	var errs []error
	if f.api != "" {
		if u, err := url.Parse(f.api); err != nil || u.Scheme != "https" || u.Host == "" {
			errs = append(errs, fmt.Errorf("--api %q: must be https://HOST[:PORT]", f.api))
		}
	}
	if f.configServer != "" {
		if host, port, err := net.SplitHostPort(f.configServer); err != nil || host == "" || port == "" {
			errs = append(errs, fmt.Errorf("--config-server %q: must be HOST:PORT", f.configServer))
		}
	}
	if f.timeout < 0 {
		errs = append(errs, fmt.Errorf("--timeout %s: must not be negative", f.timeout))
	}
	return errors.Join(errs...)
}

func (f waitFlags) progress(s *site.Site) func(context.Context) ([]state.Progress, error) {
	c := &configserver.Client{
		Addresses: installer.ConfigServers(s), ServerName: s.APIName(),
		CA: s.Identity.ConfigCA.Cert, Token: s.Identity.ProgressToken,
	}
	if f.configServer != "" {
		c.Addresses = []string{f.configServer}
	}
	return c.Progress
}

// reportTimeout bounds one question to an API that may not exist yet.
const reportTimeout = 3 * time.Second

func (f waitFlags) marks(s *site.Site) func(context.Context) (map[string]string, error) {
	server := f.api
	if server == "" && len(s.Config.APIVIPs()) > 0 {
		server = "https://" + s.APIEndpoint() // works even if no name server knows the site
	}
	return func(ctx context.Context) (map[string]string, error) {
		client, err := kube.OpenAt(filepath.Join(f.dir, installer.Kubeconfig), server)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, reportTimeout)
		defer cancel()
		return client.ConfigMap(ctx, installation.MarksNamespace, installation.MarksName)
	}
}

func progressLines(hosts []state.Progress) []command.ViewLine {
	lines := make([]command.ViewLine, 0, len(hosts))
	for _, h := range hosts {
		lines = append(lines, command.ViewLine{Host: h.Host, Doing: h.Doing()})
	}
	return lines
}

// waitError explains a wait that ended without its goal.
func waitError(o installer.Outcome, timeout time.Duration, cause error) error {
	if !errors.Is(cause, installer.ErrTimeout) {
		return fmt.Errorf("interrupted (%w): the hosts continue by themselves; run the command again to wait for them", cause)
	}
	return fmt.Errorf("not %s after %s: %s", o.Goal, timeout, o.Reason())
}

// sayComplete says what to type next. Whether a BMC cuts power is known only once it did:
// that is best found out before the site is used, and while somebody is there.
func sayComplete(streams Streams, o installer.Outcome, f waitFlags, fencing bool) error {
	if f.output == "json" {
		return nil
	}
	said := fmt.Sprintf("%s after %.0f s; try:\n  kubectl --kubeconfig %s get nodes\n", o.Goal, o.Seconds, filepath.Join(f.dir, installer.Kubeconfig))
	if fencing && o.Goal == installation.InstallComplete {
		var names []string
		for _, h := range o.Hosts {
			if h.Role.ControlPlane() {
				names = append(names, h.Host)
			}
		}
		slices.Sort(names)
		said += "then prove, before the site is used, that each BMC cuts the power of its host; each of both is crashed once:\n" +
			"  holdfast fencing verify --hosts " + strings.Join(names, ",") + " --disruptive --calibrate\n"
	}
	_, err := io.WriteString(streams.Out, said)
	return err
}
