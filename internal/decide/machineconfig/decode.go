package machineconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/holdfast/holdfast/internal/model/ignition"
)

// decoder reads one MachineConfig and collects its mistakes.
type decoder struct {
	object string
	// merged is true for the result of a merge, which has files of Holdfast too.
	merged   bool
	mistakes Mistakes
}

func (d *decoder) fault(field, format string, args ...any) {
	d.mistakes = append(d.mistakes, Mistake{Object: d.object, Field: field, Why: fmt.Sprintf(format, args...)})
}

// spec returns the Ignition config of a MachineConfig, with the bytes of each
// file unpacked and written in one form: otherwise a merge would join the
// contents of one file with the compression of another
// (docs/facts/machine-config.md#merge, C3).
func (d *decoder) spec(s mcfgv1.MachineConfigSpec) types.Config {
	d.system(s)
	for i, a := range s.KernelArguments {
		d.kernelArgument(fmt.Sprintf("spec.kernelArguments.%d", i), a)
	}
	if len(s.Config.Raw) == 0 {
		return types.Config{}
	}
	cfg, err := ignition.Parse(s.Config.Raw)
	if err != nil {
		d.unreadable(err)
		return types.Config{}
	}
	d.refuse(cfg)
	for i := range cfg.Storage.Files {
		d.file(fmt.Sprintf("spec.config.storage.files.%d", i), &cfg.Storage.Files[i])
	}
	for i := range cfg.Systemd.Units {
		d.unit(fmt.Sprintf("spec.config.systemd.units.%d", i), &cfg.Systemd.Units[i])
	}
	for i := range cfg.Passwd.Users {
		d.user(fmt.Sprintf("spec.config.passwd.users.%d", i), &cfg.Passwd.Users[i])
	}
	return cfg
}

// unreadable reports why a config cannot be read. Each fault of the parser has a
// field.
func (d *decoder) unreadable(err error) {
	var faults ignition.Faults
	if !errors.As(err, &faults) {
		d.fault("spec.config", "%v", err)
		return
	}
	for _, f := range faults {
		field := "spec.config"
		if f.Field != ignition.Whole {
			field += "." + f.Field
		}
		d.fault(field, "%s", f.Why)
	}
}

// system refuses the fields that choose another operating system.
func (d *decoder) system(s mcfgv1.MachineConfigSpec) {
	const image = "a package-based host has no image of its operating system; leave it out"
	for _, r := range []struct {
		set        bool
		field, why string
	}{
		{s.OSImageURL != "", "osImageURL", image},
		{s.BaseOSExtensionsContainerImage != "", "baseOSExtensionsContainerImage", image},
		{s.FIPS, "fips", "FIPS mode is chosen when the operating system is installed; leave it out"},
		{s.KernelType != "" && s.KernelType != "default", "kernelType", "the kernel is a package of the distribution; install it there and leave this out"},
		{len(s.Extensions) > 0, "extensions", "no packages are installed by a MachineConfig; install them with the distribution's tool"},
	} {
		if r.set {
			d.fault("spec."+r.field, "%s", r.why)
		}
	}
}

// refuse reports the parts of an Ignition config that cannot be applied on a
// host that runs, or could not be taken back.
func (d *decoder) refuse(cfg types.Config) {
	const (
		disks   = "a package-based host keeps its disks; remove it"
		fetched = "nothing is fetched: each file carries its bytes in a data: URL; remove it"
		back    = " could not be taken back; remove it"
	)
	ign := cfg.Ignition
	for _, r := range []struct {
		set        bool
		field, why string
	}{
		{len(ign.Config.Merge) > 0, "ignition.config.merge", fetched},
		{ign.Config.Replace.Source != nil, "ignition.config.replace", fetched},
		{ign.Proxy.HTTPProxy != nil || ign.Proxy.HTTPSProxy != nil || len(ign.Proxy.NoProxy) > 0, "ignition.proxy", fetched},
		{len(ign.Security.TLS.CertificateAuthorities) > 0, "ignition.security", fetched},
		{ign.Timeouts != types.Timeouts{}, "ignition.timeouts", fetched},
		{len(cfg.Storage.Disks) > 0, "storage.disks", disks},
		{len(cfg.Storage.Raid) > 0, "storage.raid", disks},
		{len(cfg.Storage.Filesystems) > 0, "storage.filesystems", disks},
		{len(cfg.Storage.Luks) > 0, "storage.luks", disks},
		{len(cfg.Storage.Directories) > 0, "storage.directories", "a directory, into which others put files," + back + "; the folder of a file needs no entry"},
		{len(cfg.Storage.Links) > 0, "storage.links", "what lay at the place of a link" + back},
		{len(cfg.Passwd.Groups) > 0, "passwd.groups", "an account with what it owns" + back},
		{len(cfg.KernelArguments.ShouldExist)+len(cfg.KernelArguments.ShouldNotExist) > 0, "kernelArguments", "write them into spec.kernelArguments"},
	} {
		if r.set {
			d.fault("spec.config."+r.field, "%s", r.why)
		}
	}
}

// file checks a file and writes its contents in one form.
func (d *decoder) file(field string, f *types.File) {
	own := ownFiles[f.Path]
	if own == nil || !d.merged {
		d.place(field+".path", f.Path)
	}
	if f.Overwrite != nil && !*f.Overwrite {
		d.fault(field+".overwrite", "a MachineConfig owns its files; leave it out")
	}
	if len(f.Append) > 0 {
		d.fault(field+".append", "an addition to a file could not be taken back; write the whole file, or one in a folder beside it")
	}
	if f.Mode != nil && *f.Mode&^0o777 != 0 {
		d.fault(field+".mode", "%#o has other bits than those of permissions", *f.Mode)
	}
	if f.User.ID != nil && *f.User.ID < 0 || f.Group.ID != nil && *f.Group.ID < 0 {
		d.fault(field+".user", "the number of an account is not below 0")
	}
	if f.Contents.Source == nil {
		f.Contents = types.Resource{}
		return
	}
	if !ignition.Inline(f.Contents) {
		d.fault(field+".contents.source", "nothing is fetched: write the bytes as a data: URL")
		return
	}
	data, err := ignition.Contents(f.Contents)
	if err != nil {
		d.fault(field+".contents", "%v", err)
		return
	}
	d.sysctl(field+".contents", f.Path, data)
	d.manager(field+".contents", f.Path, data)
	d.mirrors(field+".contents", f.Path, data)
	if own != nil && d.merged {
		own(d, field+".contents", data)
	}
	f.Contents = types.Resource{Source: new(ignition.DataURL(data))}
}

// unit checks a unit.
func (d *decoder) unit(field string, u *types.Unit) {
	if !ignition.ValidUnitName(u.Name) {
		d.fault(field+".name", "%q is not the name of a unit", u.Name)
	}
	if u.Contents != nil && *u.Contents == "" {
		u.Contents = nil
	}
	if slices.Contains(unitsOfTheWayBack, u.Name) {
		d.fault(field, "%s is Holdfast's, and a host that cannot have its configuration goes back by it; remove it", u.Name)
		return
	}
	d.agent(field, u)
	if Ours(u.Name) && (u.Contents != nil || u.Enabled != nil || u.Mask != nil) {
		d.fault(field, "%s is Holdfast's; only drop-ins may be added", u.Name)
	}
	for i, drop := range u.Dropins {
		at := fmt.Sprintf("%s.dropins.%d.name", field, i)
		switch {
		case !ignition.ValidUnitName(drop.Name):
			d.fault(at, "%q is not the name of a file", drop.Name)
		case strings.Contains(drop.Name, marked) || Ours(u.Name) && drop.Name == proxyDropin:
			d.fault(at, "%s is Holdfast's; choose another name", drop.Name)
		}
	}
}

// user checks an account: keys of one account are all that can be set, because
// everything else of an account could not be taken back.
func (d *decoder) user(field string, u *types.PasswdUser) {
	if u.Name != User {
		d.fault(field+".name", "only the keys of %s can be set", User)
	}
	rest := *u
	rest.Name, rest.SSHAuthorizedKeys = "", nil
	if !empty(rest) {
		d.fault(field, "only sshAuthorizedKeys can be set; remove the other fields")
	}
	for i, key := range u.SSHAuthorizedKeys {
		text := strings.TrimSpace(string(key))
		if text == "" || strings.ContainsAny(text, "\n\r\x00") {
			d.fault(fmt.Sprintf("%s.sshAuthorizedKeys.%d", field, i), "not one line of authorized_keys")
		}
		u.SSHAuthorizedKeys[i] = types.SSHAuthorizedKey(text)
	}
}

// empty reports whether no field of an account is set.
func empty(u types.PasswdUser) bool {
	return u.Gecos == nil && u.Groups == nil && u.HomeDir == nil && u.NoCreateHome == nil && u.NoLogInit == nil && u.NoUserGroup == nil &&
		u.PasswordHash == nil && u.PrimaryGroup == nil && u.Shell == nil && u.ShouldExist == nil && u.System == nil && u.UID == nil
}
