package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/install/plan"
)

// take carries out one step.
func (h *Host) take(ctx context.Context, a plan.Action, opt executeOptions) error {
	switch a := a.(type) {
	case *plan.InstallPackages:
		return h.installPackages(ctx, a)
	case *plan.CreateGroup, *plan.CreateUser, *plan.ChangeUser, *plan.SetPassword:
		return h.takeAccount(ctx, a)
	case *plan.Reload, *plan.Enable, *plan.Disable, *plan.Start, *plan.Stop:
		return h.takeUnit(ctx, a, opt)
	default:
		return h.takeNode(a)
	}
}

// executeOptions changes how steps are taken, not which.
type executeOptions struct {
	// noBlock queues the start of units without waiting for it: a unit may wait
	// for the end of the first boot, which waits for us.
	noBlock bool
}

func (h *Host) takeNode(a plan.Action) error {
	switch a := a.(type) {
	case *plan.MakeDirectory:
		return h.directory(a)
	case *plan.WriteFile:
		return h.onPath(a.Path, func(path string) error {
			return h.write(path, a)
		})
	case *plan.SetMode:
		return h.onPath(a.Path, func(path string) error {
			if err := h.Chmod(path, a.Mode); err != nil {
				return err
			}
			return h.own(path, a.Owner, a.Mode)
		})
	case *plan.MakeLink:
		return h.link(a)
	case *plan.Remove:
		return h.onPath(a.Path, h.Remove)
	default:
		return fmt.Errorf("unknown step %T", a)
	}
}

// write writes a file that belongs to its owner from the first moment: a run that
// is cut leaves no file that its owner cannot read.
func (h *Host) write(path string, a *plan.WriteFile) error {
	if a.Owner == nil {
		return h.WriteFile(path, a.Data, a.Mode)
	}
	uid, gid, err := h.ids(*a.Owner)
	if err != nil {
		return err
	}
	return h.WriteFor(path, a.Data, a.Mode, uid, gid)
}

func (h *Host) onPath(path string, f func(string) error) error {
	place, err := h.at(path)
	if err != nil {
		return err
	}
	return f(place)
}

func (h *Host) directory(a *plan.MakeDirectory) error {
	return h.onPath(a.Path, func(path string) error {
		err := h.Mkdir(path, a.Mode)
		if errors.Is(err, fs.ErrExist) {
			err = h.Chmod(path, a.Mode)
		}
		if err != nil {
			return err
		}
		return h.own(path, a.Owner, a.Mode)
	})
}

func (h *Host) link(a *plan.MakeLink) error {
	return h.onPath(a.Path, func(path string) error {
		if a.Hard {
			target, err := h.at(a.Target)
			if err != nil {
				return err
			}
			return h.Link(target, path)
		}
		if err := h.Symlink(a.Target, path); err != nil {
			return err
		}
		return h.own(path, a.Owner, 0)
	})
}

// own sets the owner of a path unless it is right. The change clears setuid and
// setgid, so own sets them again.
func (h *Host) own(path string, o *plan.Owner, mode fs.FileMode) error {
	if o == nil {
		return nil
	}
	uid, gid, err := h.ids(*o)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if u, g := h.Owner(info); u == uid && g == gid {
		return nil
	}
	if err := h.Chown(path, uid, gid); err != nil {
		return err
	}
	if mode&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		return nil
	}
	return h.Chmod(path, mode)
}

// commandTimeout bounds a call of one of the host's own tools.
const commandTimeout = 2 * time.Minute

func (h *Host) run(ctx context.Context, c host.Cmd) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, fmt.Errorf("no end after %s", commandTimeout))
	defer cancel()
	_, err := h.Run(ctx, c)
	return err
}

func (h *Host) takeUnit(ctx context.Context, a plan.Action, opt executeOptions) error {
	switch a := a.(type) {
	case *plan.Reload:
		return h.run(ctx, h.systemctl("daemon-reload"))
	case *plan.Enable:
		verb := "enable"
		if a.Again {
			verb = "reenable"
		}
		return h.run(ctx, h.systemctl(verb, "--no-reload", "--", a.Unit))
	case *plan.Disable:
		return h.run(ctx, h.systemctl("disable", "--no-reload", "--", a.Unit))
	case *plan.Start:
		if opt.noBlock {
			return h.run(ctx, h.systemctl("start", "--no-block", "--", a.Unit))
		}
		return h.run(ctx, h.systemctl("start", "--", a.Unit))
	case *plan.Stop:
		return h.run(ctx, h.systemctl("stop", "--", a.Unit))
	default:
		return fmt.Errorf("unknown step %T", a)
	}
}

func (h *Host) takeAccount(ctx context.Context, a plan.Action) error {
	switch a := a.(type) {
	case *plan.CreateGroup:
		return h.run(ctx, h.tool("groupadd", groupArgs(a.Group)...))
	case *plan.CreateUser:
		_, groups, err := h.accounts()
		if err != nil {
			return err
		}
		return h.run(ctx, h.tool("useradd", userArgs(a.User, groups)...))
	case *plan.ChangeUser:
		return h.run(ctx, h.tool("usermod", changeArgs(a)...))
	case *plan.SetPassword:
		// Use standard input: every process can see arguments.
		c := h.tool("chpasswd", "--encrypted")
		c.Stdin = strings.NewReader(a.Name + ":" + a.Hash + "\n")
		return h.run(ctx, c)
	default:
		return fmt.Errorf("unknown step %T", a)
	}
}

// tool returns a command of the shadow suite for the host's root.
func (h *Host) tool(name string, args ...string) host.Cmd {
	if h.Root != "/" {
		args = append([]string{"--root", h.Root}, args...)
	}
	return host.Command(name, args...)
}

func groupArgs(g plan.Group) []string {
	var args []string
	if g.GID != nil {
		args = append(args, "--gid", strconv.Itoa(*g.GID))
	}
	if g.System {
		args = append(args, "--system")
	}
	return append(args, "--", g.Name)
}

func userArgs(u plan.User, groups map[string]int) []string {
	var args []string
	option := func(name, value string) {
		if value != "" {
			args = append(args, name, value)
		}
	}
	option("--home-dir", u.Home)
	option("--shell", u.Shell)
	option("--comment", u.Gecos)
	option("--groups", strings.Join(u.Groups, ","))
	if u.UID != nil {
		option("--uid", strconv.Itoa(*u.UID))
	}
	_, taken := groups[u.Name]
	switch {
	case u.PrimaryGroup != "":
		option("--gid", u.PrimaryGroup)
	case taken:
		option("--gid", u.Name)
	case u.NoUserGroup:
		args = append(args, "--no-user-group")
	}
	if u.System {
		args = append(args, "--system")
	}
	if u.NoCreateHome {
		args = append(args, "--no-create-home")
	} else {
		args = append(args, "--create-home")
	}
	return append(args, "--", u.Name)
}

func changeArgs(a *plan.ChangeUser) []string {
	var args []string
	if a.Shell != "" {
		args = append(args, "--shell", a.Shell)
	}
	if len(a.AddGroups) > 0 {
		args = append(args, "--append", "--groups", strings.Join(a.AddGroups, ","))
	}
	return append(args, "--", a.Name)
}
