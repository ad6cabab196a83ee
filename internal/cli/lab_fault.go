package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// faultDoc describes a fault for a person.
type faultDoc struct {
	kind lab.FaultKind
	// flags are those that the fault takes, as a usage line shows them.
	flags string
	doc   string
}

// faultDocs are all faults, in the order to show them.
var faultDocs = []faultDoc{
	{lab.FaultPowerCut, "", "pull the plug of the host; its BMC stays"},
	{lab.FaultReset, "", "cut the host and switch it on again (over once done)"},
	{lab.FaultShutdown, "", "ask the host to end, as the power button does"},
	{lab.FaultACLoss, "", "no mains power: host and BMC are gone"},
	{lab.FaultLinkDown, "[--nic]", "pull the cable of a NIC"},
	{lab.FaultDrop, "--direction [--nic]", "drop what comes in to or goes out of the host; the link stays up"},
	{lab.FaultPartition, "[--nic]", "drop what passes between the host and the other hosts; all reach their gateway"},
	{lab.FaultLoss, "--percent [--nic]", "drop a share of the packets, at random, both ways"},
	{lab.FaultDelay, "--delay [--nic]", "deliver packets late, both ways"},
	{lab.FaultProcessKill, "--process", "kill -9 processes of a name (over once done)"},
	{lab.FaultProcessStop, "--process", "stop processes of a name"},
	{lab.FaultEtcdDamage, "--part", "damage what etcd keeps on disk (control planes; over once done)"},
	{lab.FaultDiskFull, "", "fill etcd's file system (control planes)"},
	{lab.FaultSlowDisk, "--delay", "make writes and fsyncs of etcd's file system wait up to so long"},
	{lab.FaultBMC, "QUIRK[=VALUE]", "throw a quirk of the host's BMC (see 'holdfast lab fault bmc --help')"},
}

func newLabFault(streams Streams, name *string) *cobra.Command {
	group := &cobra.Command{
		Use:   "fault",
		Short: "Break something, and mend it again",
		Long: `Break something. Each fault stays in force until it is cleared, across restarts
of whatever it hits, and is listed by 'holdfast lab status'.`,
		Example: `  holdfast lab fault power-cut cp-2
  holdfast lab fault drop cp-1 --direction in
  holdfast lab fault loss cp-1 --nic fencing --percent 30
  holdfast lab fault bmc cp-2 says=On
  holdfast lab fault clear`,
	}
	for _, d := range faultDocs {
		group.AddCommand(newLabFaultKind(streams, name, d.kind, d.flags, d.doc))
	}
	group.AddCommand(newLabFaultClear(streams, name))
	return group
}

func newLabFaultKind(streams Streams, name *string, kind lab.FaultKind, flags, doc string) *cobra.Command {
	f := lab.Fault{Kind: kind}
	cmd := &cobra.Command{
		Use:     strings.TrimSpace(fmt.Sprintf("%s HOST %s", kind, quirkArg(kind, flags))),
		Short:   strings.ToUpper(doc[:1]) + doc[1:],
		Example: "  holdfast lab fault " + faultExample(kind),
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Host = args[0]
			if len(args) > 1 {
				f.Quirk, f.Value, _ = strings.Cut(args[1], "=")
			}
			return injectFault(cmd, streams, *name, f)
		},
	}
	if kind == lab.FaultBMC {
		cmd.Args = cobra.ExactArgs(2)
		cmd.Long = quirkHelp()
	}
	addFaultFlags(cmd, flags, &f)
	return cmd
}

func quirkArg(kind lab.FaultKind, flags string) string {
	if kind == lab.FaultBMC {
		return flags
	}
	return ""
}

// faultExample is a whole command line of a kind.
func faultExample(kind lab.FaultKind) string {
	flags := map[lab.FaultKind]string{ //nolint:exhaustive // the others have none
		lab.FaultLinkDown: " --nic fencing", lab.FaultDrop: " --direction in", lab.FaultLoss: " --percent 30",
		lab.FaultDelay: " --delay 100ms", lab.FaultProcessKill: " --process etcd", lab.FaultProcessStop: " --process etcd",
		lab.FaultEtcdDamage: " --part wal", lab.FaultSlowDisk: " --delay 500ms", lab.FaultBMC: " slow-off=10s",
	}
	return string(kind) + " cp-2" + flags[kind]
}

// addFaultFlags adds the flags that a fault's documentation names.
func addFaultFlags(cmd *cobra.Command, flags string, f *lab.Fault) {
	has := func(flag string) bool { return strings.Contains(flags, "--"+flag) }
	if has("nic") {
		cmd.Flags().StringVar(&f.NIC, "nic", lab.OnMachine, "machine or fencing")
	}
	if has("direction") {
		cmd.Flags().StringVar(&f.Direction, "direction", "", "in or out, from the host's point of view")
	}
	if has("percent") {
		cmd.Flags().IntVar(&f.Percent, "percent", 0, "percent of the packets, 1 to 100")
	}
	if has("delay") {
		cmd.Flags().DurationVar(&f.Delay, "delay", 0, "how late, for example 200ms")
	}
	if has("part") {
		cmd.Flags().StringVar(&f.Part, "part", "", strings.Join(lab.DamageParts(), ", ")+": "+lab.DamageDoc)
	}
	if has("process") {
		cmd.Flags().StringVar(&f.Process, "process", "", "name of the program, for example etcd")
	}
}

func quirkHelp() string {
	var text strings.Builder
	text.WriteString("Throw a quirk of the host's BMC. The quirks are:\n")
	for _, q := range bmc.QuirkDocs() {
		fmt.Fprintf(&text, "\n  %-20s %s\n  %-20s (%s)\n", q.Name, q.Doc, "", q.Values)
	}
	return text.String()
}

func injectFault(cmd *cobra.Command, streams Streams, name string, f lab.Fault) error {
	if err := f.Check(); err != nil {
		return &UsageError{Err: err}
	}
	_, c, err := openLab(cmd, name, f.Host)
	if err != nil {
		return err
	}
	if err := c.Inject(cmd.Context(), f); err != nil {
		return err
	}
	_, err = fmt.Fprintf(streams.Err, "fault: %s\n", f)
	return err
}

func newLabFaultClear(streams Streams, name *string) *cobra.Command {
	var r lab.ClearRequest
	var kind string
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Undo faults: all, those of a host, or those of a kind",
		Long:  "Undo faults. A host whose power a fault took is switched on again.",
		Example: `  holdfast lab fault clear
  holdfast lab fault clear --host cp-2 --kind drop`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.Kind = lab.FaultKind(kind)
			return clearFaults(cmd, streams, *name, r)
		},
	}
	cmd.Flags().StringVar(&r.Host, "host", "", "only faults of this host")
	cmd.Flags().StringVar(&kind, "kind", "", "only faults of this kind")
	return cmd
}

// clearFaults undoes faults. A host or a kind that is not is a mistake, and
// not a reason to undo nothing.
func clearFaults(cmd *cobra.Command, streams Streams, name string, r lab.ClearRequest) error {
	if r.Kind != "" && !slices.Contains(lab.FaultKinds(), r.Kind) {
		return &UsageError{Err: fmt.Errorf("fault %q: there is no such fault", r.Kind)}
	}
	var hosts []string
	if r.Host != "" {
		hosts = append(hosts, r.Host)
	}
	_, c, err := openLab(cmd, name, hosts...)
	if err != nil {
		return err
	}
	done, err := c.Clear(cmd.Context(), r)
	for _, f := range done {
		_, _ = fmt.Fprintf(streams.Err, "cleared: %s\n", f)
	}
	if err == nil && len(done) == 0 {
		_, err = fmt.Fprintln(streams.Err, "no such fault is in force")
	}
	return err
}
