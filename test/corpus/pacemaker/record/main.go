// Command record takes the state of a lab's two hosts into the corpus: the
// current output of crm_mon, corosync.conf and the etcd keeper of each.
//
//	go run ./test/corpus/pacemaker/record --lab NAME --name CASE
//
// Then `go test ./test/corpus/pacemaker -update` makes the golden statuses:
// read them before you commit.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/crmmon"
)

// taken lists the commands whose output is stored, by the name of its file.
// Missing output, as of a host that is off, is left out.
var taken = map[string][]string{
	"crm_mon.xml":   {"crm_mon", "--one-shot", "--inactive", "--fence-history=3", "--output-as=xml"},
	"corosync.conf": {"cat", "/etc/corosync/corosync.conf"},
	"etcd.json":     {"curl", "--silent", "--fail", "--unix-socket", "/run/holdfast/etcd/agent.sock", "http://agent/report"},
}

type options struct{ lab, name, hosts, holdfast, folder string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stderr, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// caseName allows only plain names of folders.
var caseName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

func run(ctx context.Context, out io.Writer, args []string) error {
	var o options
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.StringVar(&o.lab, "lab", "", "name of the lab; empty for the only one")
	flags.StringVar(&o.name, "name", "", "name of the case, as lost-fence-failed")
	flags.StringVar(&o.hosts, "hosts", "cp-1,cp-2", "hosts that are asked; one that does not answer is left out")
	flags.StringVar(&o.holdfast, "holdfast", "holdfast", "the program that reaches the lab")
	flags.StringVar(&o.folder, "folder", "test/corpus/pacemaker/cases", "where cases lie")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !caseName.MatchString(o.name) {
		return fmt.Errorf("--name %q: must consist of a-z, 0-9, dots and hyphens", o.name)
	}
	kept := 0
	for h := range strings.SplitSeq(o.hosts, ",") {
		if err := o.record(ctx, h); err != nil {
			_, _ = fmt.Fprintf(out, "record: %s is left out: %v\n", h, err)
			continue
		}
		kept++
	}
	if kept == 0 {
		return errors.New("no host answered: `holdfast lab status` shows what runs")
	}
	_, err := fmt.Fprintf(out, "%d views in %s; now: go test ./test/corpus/pacemaker -update\n", kept, filepath.Join(o.folder, o.name))
	return err
}

// record stores the output of one host. Without Pacemaker's own output there is
// no case.
func (o options) record(ctx context.Context, name string) error {
	said := map[string][]byte{}
	for file, command := range taken {
		out, err := o.ask(ctx, name, command)
		if err == nil || file == "crm_mon.xml" && len(out) > 0 {
			said[file] = out
		}
	}
	if _, err := crmmon.Parse(said["crm_mon.xml"], time.UTC); err != nil && !errors.Is(err, crmmon.ErrNotRunning) {
		return err
	}
	dir := filepath.Join(o.folder, o.name, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for file, data := range said {
		if err := host.WriteFileAtomic(filepath.Join(dir, file), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (o options) ask(ctx context.Context, name string, command []string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no answer in a minute"))
	defer cancel()
	args := []string{"lab", "exec"}
	if o.lab != "" {
		args = append(args, "--name", o.lab)
	}
	return host.Run(ctx, host.Command(o.holdfast, append(append(args, name, "--"), command...)...))
}
