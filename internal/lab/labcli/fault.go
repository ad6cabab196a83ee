package labcli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/lab/bmc"
)

// faultDoc describes a fault for users.
type faultDoc struct {
	kind lab.FaultKind
	// flags are the flags of the fault, as a usage line shows them.
	flags string
	doc   string
}

// faultDocs describes all faults, in the order to show them.
var faultDocs = []faultDoc{
	{lab.FaultPowerCut, "", "pull the plug of the host; its BMC keeps power"},
	{lab.FaultReset, "", "cut the host and switch it on again (over once done)"},
	{lab.FaultShutdown, "", "ask the host to shut down, as the power button does"},
	{lab.FaultACLoss, "", "no mains power: host and BMC are off"},
	{lab.FaultLinkDown, "[--nic]", "pull the cable of a NIC, or shut its switch port: the carrier is lost"},
	{lab.FaultNoForward, "[--nic]", "let the switch port of a NIC forward nothing: the carrier stays"},
	{lab.FaultDrop, "--direction [--nic]", "drop packets to or from the host, including ARP; the link stays up"},
	{lab.FaultFilterPort, "PORT[/tcp|udp] [--direction]", "drop packets to a port, on both networks, for example etcd's 2380"},
	{lab.FaultPartition, "[--nic]", "drop packets between the host and the other hosts; all reach their gateway"},
	{lab.FaultLoss, "--percent [--nic]", "drop a share of the packets, at random, both ways"},
	{lab.FaultDelay, "--delay [--nic]", "delay packets, both ways"},
	{lab.FaultProcessKill, "--process", "kill -9 the processes of a name (over once done)"},
	{lab.FaultProcessStop, "--process", "stop the processes of a name (SIGSTOP)"},
	{lab.FaultFreezeCgroup, "--process", "freeze the processes of a name through their cgroup"},
	{lab.FaultEtcdDamage, "--part", "damage etcd's files (control planes; over once done)"},
	{lab.FaultDiskFull, "", "fill etcd's file system (control planes)"},
	{lab.FaultSlowDisk, "--delay", "make writes and fsyncs of etcd's file system wait up to --delay"},
	{lab.FaultHangDisk, "", "make writes and fsyncs of etcd's file system wait until the fault is cleared"},
	{lab.FaultBMC, "QUIRK[=VALUE]", "switch on a quirk of the host's BMC (see 'holdfast lab fault bmc --help')"},
}

func newFault(streams command.Streams, name *string) *cobra.Command {
	group := &cobra.Command{
		Use:   "fault",
		Short: "Inject faults, and clear them again",
		Long: `Inject a fault. It stays in force until it is cleared, also across restarts of its
target, and is listed by 'holdfast lab status'.`,
		Example: `  holdfast lab fault power-cut cp-2
  holdfast lab fault drop cp-1 --direction in
  holdfast lab fault filter-port cp-1 2380/tcp --direction out
  holdfast lab fault stop-process cp-2 corosync
  holdfast lab fault loss cp-1 --nic fencing --percent 30
  holdfast lab fault bmc cp-2 says=On
  holdfast lab fault clear`,
	}
	for _, d := range faultDocs {
		group.AddCommand(newFaultKind(streams, name, d.kind, d.flags, d.doc))
	}
	group.AddCommand(newFaultClear(streams, name))
	return group
}

func newFaultKind(streams command.Streams, name *string, kind lab.FaultKind, flags, doc string) *cobra.Command {
	f := lab.Fault{Kind: kind}
	second := secondArg(kind, flags)
	cmd := &cobra.Command{
		Use:               strings.TrimSpace(fmt.Sprintf("%s HOST %s", kind, second)),
		Aliases:           faultAliases[kind],
		Short:             strings.ToUpper(doc[:1]) + doc[1:],
		Example:           "  holdfast lab fault " + faultExample(kind),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeFault(name, kind),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Host = args[0]
			if len(args) > 1 {
				if err := setSecondArg(&f, args[1]); err != nil {
					return &command.UsageError{Err: err}
				}
			}
			return injectFault(cmd, streams, *name, f)
		},
	}
	switch {
	case strings.HasPrefix(second, "["):
		cmd.Args = cobra.RangeArgs(1, 2)
	case second != "":
		cmd.Args = cobra.ExactArgs(2)
	}
	if kind == lab.FaultBMC {
		cmd.Long = quirkHelp()
	}
	addFaultFlags(cmd, flags, &f)
	return cmd
}

// faultAliases holds other names that users may try for a fault.
var faultAliases = map[lab.FaultKind][]string{ //nolint:exhaustive // the others have one name
	lab.FaultLinkDown:    {"switch-port-down"},
	lab.FaultProcessKill: {"kill-process"},
	lab.FaultProcessStop: {"stop-process"},
}

// secondArg returns the argument of a fault beside the host, as a usage line
// shows it.
func secondArg(kind lab.FaultKind, flags string) string {
	switch {
	case kind == lab.FaultBMC:
		return flags
	case kind == lab.FaultFilterPort:
		return strings.Fields(flags)[0]
	case strings.Contains(flags, "--process"):
		return "[NAME]"
	}
	return ""
}

func setSecondArg(f *lab.Fault, text string) error {
	switch f.Kind {
	case lab.FaultBMC:
		f.Quirk, f.Value, _ = strings.Cut(text, "=")
	case lab.FaultFilterPort:
		return f.SetPort(text)
	default:
		if f.Process != "" {
			return fmt.Errorf("%s: %q and --process %s: give the process only once", f.Kind, text, f.Process)
		}
		f.Process = text
	}
	return nil
}

// clusterPorts are the ports between hosts that are worth filtering.
var clusterPorts = []string{"2379/tcp", "2380/tcp", "5405/udp", "6443/tcp", "10250/tcp"}

// completeFault offers the lab's hosts, and the arguments that the fault's kind
// takes beside one.
func completeFault(name *string, kind lab.FaultKind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var list []string
		switch {
		case len(args) == 0:
			list = hostNames(*name)
		case len(args) > 1:
		case kind == lab.FaultFilterPort:
			list = clusterPorts
		case kind == lab.FaultBMC:
			for _, q := range bmc.QuirkDocs() {
				list = append(list, q.Name)
			}
		case slices.Contains([]lab.FaultKind{lab.FaultProcessKill, lab.FaultProcessStop, lab.FaultFreezeCgroup}, kind):
			list = lab.Processes()
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

// hostNames returns the names of a lab's hosts, if there is such a lab.
func hostNames(name string) []string {
	var list []string
	if b, err := lab.Open(labRoot(), name); err == nil {
		for _, h := range b.Layout.Hosts {
			list = append(list, h.Name)
		}
	}
	return list
}

// faultExample returns a complete command line of a kind.
func faultExample(kind lab.FaultKind) string {
	flags := map[lab.FaultKind]string{ //nolint:exhaustive // the others have none
		lab.FaultLinkDown: " --nic fencing", lab.FaultDrop: " --direction in", lab.FaultLoss: " --percent 30",
		lab.FaultDelay: " --delay 100ms", lab.FaultProcessKill: " --process etcd", lab.FaultProcessStop: " --process etcd",
		lab.FaultFilterPort: " 2380/tcp --direction in", lab.FaultFreezeCgroup: " --process etcd",
		lab.FaultEtcdDamage: " --part wal", lab.FaultSlowDisk: " --delay 500ms", lab.FaultBMC: " slow-off=10s",
	}
	return string(kind) + " cp-2" + flags[kind]
}

// addFaultFlags adds the flags that a fault's documentation names.
func addFaultFlags(cmd *cobra.Command, flags string, f *lab.Fault) {
	has := func(flag string) bool { return strings.Contains(flags, "--"+flag) }
	if has("nic") {
		cmd.Flags().StringVar(&f.NIC, "nic", lab.OnMachine, "machine or fencing")
		offer(cmd, "nic", []string{lab.OnMachine, lab.OnFencing})
	}
	if has("direction") {
		directions, doc := []string{lab.DirectionIn, lab.DirectionOut}, "in or out, from the host's point of view"
		if f.Kind == lab.FaultFilterPort {
			directions, doc = append(directions, lab.DirectionBoth), "in (to a port of the host), out (to a port of another one) or both (default both)"
		}
		cmd.Flags().StringVar(&f.Direction, "direction", "", doc)
		offer(cmd, "direction", directions)
	}
	if has("percent") {
		cmd.Flags().IntVar(&f.Percent, "percent", 0, "percent of the packets, 1 to 100")
	}
	if has("delay") {
		cmd.Flags().DurationVar(&f.Delay, "delay", 0, "delay, for example 200ms")
	}
	if has("part") {
		cmd.Flags().StringVar(&f.Part, "part", "", strings.Join(lab.DamageParts(), ", ")+": "+lab.DamageDoc)
		offer(cmd, "part", lab.DamageParts())
	}
	if has("process") {
		cmd.Flags().StringVar(&f.Process, "process", "", "name of the program, for example etcd")
		offer(cmd, "process", lab.Processes())
	}
}

// offer makes a shell complete the values of a flag.
func offer(cmd *cobra.Command, flag string, values []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

func quirkHelp() string {
	var text strings.Builder
	text.WriteString("Switch on a quirk of the host's BMC. The quirks are:\n")
	for _, q := range bmc.QuirkDocs() {
		fmt.Fprintf(&text, "\n  %-20s %s\n  %-20s (%s)\n", q.Name, q.Doc, "", q.Values)
	}
	return text.String()
}

func injectFault(cmd *cobra.Command, streams command.Streams, name string, f lab.Fault) error {
	if err := f.Check(); err != nil {
		return &command.UsageError{Err: err}
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

func newFaultClear(streams command.Streams, name *string) *cobra.Command {
	var r lab.ClearRequest
	var kind string
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Clear faults: all, those of a host, or those of a kind",
		Long:  "Clear faults. A host that a fault switched off is switched on again.",
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

// clearFaults undoes faults. An unknown host or kind is an error, so that a
// mistake does not pass for "nothing to undo".
func clearFaults(cmd *cobra.Command, streams command.Streams, name string, r lab.ClearRequest) error {
	if r.Kind != "" && !slices.Contains(lab.FaultKinds(), r.Kind) {
		return &command.UsageError{Err: fmt.Errorf("fault %q: there is no such fault", r.Kind)}
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
