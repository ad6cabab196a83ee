package labcli

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/install/release"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/payload"
)

// upFlags holds the flags of `lab up`.
type upFlags struct {
	spec     lab.Spec
	families string
	platform string
	release  string
	agent    string
	stick    string
	restored string
	timeout  time.Duration
}

func newUp(streams command.Streams, name *string) *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a lab up, or finish bringing it up",
		Long: `Bring a lab up: write its install-config.yaml, make each host's Ignition config with
the installer, switch the hosts on through their BMCs and wait until every host is
installed. A second run completes an interrupted one; on a lab that is up it does
nothing.`,
		Example: `  holdfast lab up
  holdfast lab up --control-planes 1 --workers 2
  holdfast lab up --control-planes 1 --spare-control-planes 1    a site that grows to two
  holdfast lab up --name v6 --families v6 --post-delay 0s
  holdfast lab up --workers 2 --far-workers 1 --far-ingress
  holdfast lab up --pull      hosts pull their release, as at a disconnected site
  holdfast lab up --stick DIR the release in DIR lies in /media/holdfast, to be upgraded to
  holdfast lab up --restored DIR  the site begins with the data of a backup
  holdfast lab up --bare      hosts without Kubernetes, to inspect the lab itself`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.spec.Name = *name
			return runUp(cmd.Context(), streams, f)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.spec.ControlPlanes, "control-planes", 2, "control-plane hosts: 1, 2, 3 or 5")
	flags.IntVar(&f.spec.SpareControlPlanes, "spare-control-planes", 0, "extra control-plane hosts that stay off and get no Ignition config, for a site that grows later")
	flags.IntVar(&f.spec.Workers, "workers", 0, "worker hosts")
	flags.IntVar(&f.spec.SpareWorkers, "spare-workers", 0, "extra worker hosts that stay off until 'holdfast lab power HOST on', to be added later")
	flags.StringVar(&f.families, "families", "v4", "address families, the primary one first: v4, v6, v4,v6 or v6,v4")
	flags.StringVar(&f.platform, "platform", "", "none or baremetal (default none for one control plane without spare ones, else baremetal)")
	flags.DurationVar(&f.spec.POSTDelay, "post-delay", lab.DefaultPOSTDelay, "duration of a host's power-on self-test")
	flags.IntVar(&f.spec.FarWorkers, "far-workers", 0, "how many of the workers are in a second machine network, behind a router")
	flags.BoolVar(&f.spec.FarIngress, "far-ingress", false, "the ingress addresses are in that network")
	flags.BoolVar(&f.spec.RouterAdvertisements, "router-advertisements", false, "hosts have their IPv6 default route from a router that advertises itself")
	flags.BoolVar(&f.spec.SecondNIC, "second-nic", false, "each host has another NIC in its machine network")
	flags.StringVar(&f.spec.CertificateValidity, "certificate-validity", "", "the install-config's certificateValidityPeriod, for example 12m")
	flags.IntVar(&f.spec.EtcdQuota, "etcd-quota", 0, "the install-config's etcdQuotaGiB, 2 to 8 (default: left out)")
	flags.StringVar((*string)(&f.spec.EtcdDisk), "etcd-disk", "", "where etcd of each control plane has its disk: memory, as fast as one that no other host uses, or machine, which all hosts share (default memory, and machine with --etcd-quota)")
	flags.BoolVar(&f.spec.Bare, "bare", false, "boot the hosts without installing anything")
	flags.BoolVar(&f.spec.Pull, "pull", false, "hosts pull the release from a registry that the lab serves, instead of bringing it along")
	flags.StringVar(&f.release, "release", "", "directory of the release payload (default: beside this program, as 'make release' builds it)")
	flags.StringVar(&f.stick, "stick", "", "directory that each host has, read-only, at "+lab.StickPath+", as from a USB stick: another release, for an upgrade")
	flags.StringVar(&f.restored, "restored", "", "install directory that 'holdfast restore' made: the site begins with the keys and the data of that backup")
	flags.StringVar(&f.agent, "agent", "", "holdfast-agent for the hosts (default: beside this program)")
	flags.DurationVar(&f.timeout, "timeout", 15*time.Minute, "how long to wait for the hosts")
	return cmd
}

func runUp(ctx context.Context, streams command.Streams, f upFlags) error {
	options, err := f.options()
	if err != nil {
		return &command.UsageError{Err: err}
	}
	if err := lab.CheckTools(); err != nil {
		return err
	}
	if err := f.locate(&options); err != nil {
		return err
	}
	cache, err := release.CacheDir()
	if err != nil {
		return err
	}
	builder := &lab.Builder{
		Root: labRoot(), Cache: cache, Packages: hostPackages(options.Spec),
		Installer: siteInstaller{restored(f.restored)}, Launch: lab.SelfLauncher, Log: streams.Err,
	}
	b, c, err := builder.Up(ctx, options)
	if err != nil || options.Spec.Bare {
		return err
	}
	copying, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if err := restored(f.restored).snapshot(copying, b, c); err != nil {
		return err
	}
	return waitForLab(ctx, streams, b, c, f.timeout)
}

// options returns the checked flags.
func (f upFlags) options() (lab.Options, error) {
	families, err := lab.ParseFamilies(f.families)
	if err != nil {
		return lab.Options{}, err
	}
	spec := f.spec
	spec.Families, spec.Platform = families, lab.Platform(f.platform)
	spec = spec.WithDefaults()
	return lab.Options{Spec: spec}, spec.Validate()
}

// locate finds the release and the agent that the hosts get.
func (f upFlags) locate(o *lab.Options) error {
	if o.Spec.Bare && f.agent == "" && f.release == "" {
		return nil
	}
	var err error
	if o.Agent, err = locateAgent(f.agent); err != nil {
		return err
	}
	if o.Release, err = locateRelease(f.release); err != nil || f.stick == "" {
		return err
	}
	if _, err := os.Stat(f.stick); err != nil {
		return fmt.Errorf("--stick: %w", err)
	}
	o.Stick, err = filepath.Abs(f.stick)
	return err
}

func locateAgent(given string) (string, error) {
	if given == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		given = filepath.Join(filepath.Dir(self), "holdfast-agent")
	}
	if _, err := os.Stat(given); err != nil {
		return "", fmt.Errorf("agent for the hosts: %w: build it beside holdfast (make build), or give its path with --agent", err)
	}
	return filepath.Abs(given)
}

// locateRelease finds the release: the given one, else the one that was built
// beside this program, else the one of this machine.
func locateRelease(given string) (string, error) {
	places := []string{given}
	if given == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		places = []string{filepath.Join(filepath.Dir(self), "..", "release"), "/usr/share/holdfast/release"}
	}
	for _, dir := range places {
		if _, err := os.Stat(filepath.Join(dir, "index.json")); err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", fmt.Errorf("no release payload in %s: build it (make release), or give its path with --release", strings.Join(places, " or "))
}

// hostPackages returns the Debian packages that the hosts need, also after the site has
// grown or shrunk to two control planes.
func hostPackages(s lab.Spec) []string {
	if s.ControlPlanes+s.SpareControlPlanes >= 2 {
		return payload.HostPackages(payload.ExtensionTwoNodeHA)
	}
	return payload.HostPackages()
}

// siteInstaller is the installer that users run too.
type siteInstaller struct{ restored }

// IgnitionConfigs implements lab.Installer.
func (i siteInstaller) IgnitionConfigs(_ context.Context, dir string, _ []byte) error {
	if err := i.keys(dir); err != nil {
		return err
	}
	_, err := (&installer.Installer{Dir: dir, Now: time.Now, Random: rand.Reader}).IgnitionConfigs()
	return err
}
