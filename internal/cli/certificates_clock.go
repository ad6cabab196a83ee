package cli

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/clock"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

func newCertificates(streams Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "certificates",
		Short: "Have certificates renewed that a wrong clock has made",
		Long: `The agent of each control plane renews its certificates by itself (holdfast doctor
--in tells when). It renews none while one is from a later day than the clock says:
one of two clocks is wrong then, and a person has to say which.`,
	}
	cmd.AddCommand(newCertificatesClock(streams))
	return cmd
}

func newCertificatesClock(streams Streams) *cobra.Command {
	var output string
	var accept, dry bool
	cmd := &cobra.Command{
		Use:   "clock",
		Short: "Show certificates from a later day, and have them renewed by the present clock",
		Long: `Run it on the host in question. It shows what the clock of this host says, whether
anything synchronises it, and which certificates are valid from a later day on: those of
a control plane, and those of a host's kubelet.

With --accept an administrator says that this clock is right. For an hour, or until the
next boot, the agent then replaces these certificates, without waiting for other hosts:
nobody accepts what they show. A control plane signs others. A worker goes back to the
former certificate of its kubelet. It is refused while nothing synchronises the clock,
and while an authority is from a later day too. The word is for this host alone.

Exit codes: 0 no certificate is from a later day, or the word is given; 3 one is;
7 refused, nothing was changed; 1 it failed; 2 wrong usage.`,
		Example: `  sudo holdfast certificates clock
  sudo holdfast certificates clock --accept --dry-run
  sudo holdfast certificates clock --accept`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c := hostClock{now: time.Now, synchronised: clock.Synchronised}
			if dry && !accept {
				return &UsageError{Err: errors.New("--dry-run belongs to --accept")}
			}
			return c.run(streams.Out, output, accept, dry)
		},
	}
	formatFlag(cmd, &output)
	cmd.Flags().BoolVar(&accept, "accept", false, "the clock of this host is right: have these certificates renewed")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what --accept would do, and change nothing")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

// hostClock is the clock of a host, and what its certificates say about it.
type hostClock struct {
	root         string // empty but in tests
	now          func() time.Time
	synchronised func() (bool, error)
}

// clockReport is what `certificates clock` prints.
type clockReport struct {
	Now time.Time `json:"now"`
	// Synchronised is absent if it is unknown.
	Synchronised *bool          `json:"synchronised,omitempty"`
	Later        []laterThanNow `json:"later"`
	Accepted     bool           `json:"accepted,omitempty"`
	DryRun       bool           `json:"dryRun,omitempty"`
}

type laterThanNow struct {
	Path string    `json:"path"`
	From time.Time `json:"from"`
	// Authority is when its authority begins, if that is a later day too.
	Authority *time.Time `json:"authority,omitempty"`
}

func (c hostClock) run(out io.Writer, format string, accept, dry bool) error {
	h, err := c.host()
	if err != nil {
		return err
	}
	r := clockReport{Now: h.Now, Later: []laterThanNow{}, DryRun: dry}
	var synchronised state.Fact[bool]
	if is, err := c.synchronised(); err == nil {
		synchronised, r.Synchronised = state.Known(is), &is
	}
	leaves, authorities := h.Ahead()
	for _, f := range leaves {
		r.Later = append(r.Later, laterThanNow{Path: f.Path, From: f.From})
	}
	for _, f := range authorities {
		r.Later = append(r.Later, laterThanNow{Path: f.Path, From: f.From, Authority: &f.Issuer.From})
	}
	var end error
	switch why := h.Refusal(synchronised); {
	case len(r.Later) == 0:
	case !accept:
		end = exitWith(command.ExitAttention)
	case why != "":
		end = coded(command.ExitRefused, "refused: %s", why)
	case dry:
	default:
		r.Accepted = true
		end = c.write(h.Now)
	}
	if err := r.print(out, format); err != nil {
		return err
	}
	return end
}

func (c hostClock) write(now time.Time) error {
	data, err := json.Marshal(leafcert.Accepted{At: now.UTC()})
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(c.root+leafcert.AcceptedPath, append(data, '\n'), state.SecretFileMode)
}

// host reads the certificates of this host.
func (c hostClock) host() (leafcert.Host, error) {
	h := leafcert.Host{Now: c.now().UTC().Truncate(time.Second)}
	var errs []error
	for _, l := range slices.Concat(leafcert.Leaves(), kubelets()) {
		f, err := c.file(l)
		switch {
		case errors.Is(err, fs.ErrNotExist): // not every host has every file
		case err != nil:
			errs = append(errs, err)
		default:
			h.Files = append(h.Files, f)
		}
	}
	if len(h.Files)+len(errs) == 0 {
		errs = append(errs, errors.New("there are no certificates of a cluster here: run it on a host of one, as root"))
	}
	return h, errors.Join(errs...)
}

// kubelets returns the certificates of a host's kubelet. The agent replaces them apart from
// those of a control plane.
func kubelets() []leafcert.Leaf {
	var out []leafcert.Leaf
	for _, path := range []string{kubeadm.KubeletCertificate, kubeadm.ServingCertificate} {
		out = append(out, leafcert.Leaf{Path: path, Key: path, Authority: leafcert.KubernetesCA})
	}
	return out
}

func (c hostClock) file(l leafcert.Leaf) (leafcert.File, error) {
	data, err := os.ReadFile(c.root + l.Path)
	if err != nil {
		return leafcert.File{}, err
	}
	if l.Key == "" {
		if data, err = kube.ClientCertificates(data); err != nil {
			return leafcert.File{}, fmt.Errorf("%s: %w", l.Path, err)
		}
		if len(bytes.TrimSpace(data)) == 0 {
			return leafcert.File{}, fs.ErrNotExist // this kubeconfig names a file
		}
	}
	all := certificates(data)
	if len(all) == 0 {
		return leafcert.File{}, fmt.Errorf("%s: contains no certificate", l.Path)
	}
	f := leafcert.File{Leaf: l, From: all[0].NotBefore, Ends: all[0].NotAfter}
	bundle, err := os.ReadFile(c.root + l.Authority + ".crt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // somebody keeps it elsewhere
		return f, err
	}
	for _, ca := range certificates(bundle) {
		if all[0].CheckSignatureFrom(ca) == nil {
			f.Issuer = leafcert.Authority{From: ca.NotBefore, Ends: ca.NotAfter}
		}
	}
	return f, nil
}

// certificates returns those of a PEM text.
func certificates(data []byte) []*x509.Certificate {
	var out []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if x, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			out = append(out, x)
		}
	}
	return out
}

func (r clockReport) print(out io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return printData(out, format, r)
	}
	synchronised := "it is unknown whether anything synchronises it"
	if r.Synchronised != nil {
		synchronised = map[bool]string{true: "it is synchronised", false: "nothing synchronises it"}[*r.Synchronised]
	}
	_, _ = fmt.Fprintf(out, "the clock of this host says %s, and %s\n", timestamp(r.Now), synchronised)
	for _, l := range r.Later {
		_, _ = fmt.Fprintf(out, "  %s is valid from %s on\n", l.Path, timestamp(l.From))
		if l.Authority != nil {
			_, _ = fmt.Fprintf(out, "    and its authority from %s on\n", timestamp(*l.Authority))
		}
	}
	var text string
	switch {
	case len(r.Later) == 0:
		text = "no certificate is from a later day"
	case r.Accepted:
		text = "The agent replaces them within five minutes: sudo journalctl -u holdfast-agent -g certificate"
	case r.DryRun:
		text = "--accept has the agent replace those whose authority is valid now"
	default:
		text = "Compare the clocks of all hosts (date -u). If this one is wrong: chronyc makestep. If it is right: sudo holdfast certificates clock --accept"
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
