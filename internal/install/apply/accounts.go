package apply

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/install/plan"
)

// accounts reads the host's users and groups from its own files: useradd writes
// those, and a first boot does not ask a directory service.
func (h *Host) accounts() (map[string]plan.Account, map[string]int, error) {
	users, groups := map[string]plan.Account{}, map[string]int{}
	shadow := map[string]string{}
	err := errors.Join(
		h.records("/etc/shadow", 2, func(f []string) { shadow[f[0]] = f[1] }),
		h.records("/etc/passwd", 7, func(f []string) {
			users[f[0]] = plan.Account{
				UID: number(f[2]), GID: number(f[3]), Home: f[5], Shell: f[6], PasswordHash: shadow[f[0]],
			}
		}),
		h.records("/etc/group", 4, func(f []string) {
			groups[f[0]] = number(f[2])
			for member := range strings.SplitSeq(f[3], ",") {
				if u, ok := users[member]; ok {
					u.Groups = append(slices.Clone(u.Groups), f[0])
					users[member] = u
				}
			}
		}))
	return users, groups, err
}

// records calls f with the fields of each line of a file like /etc/passwd.
func (h *Host) records(file string, fields int, f func([]string)) error {
	path, err := h.at(file)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if parts := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(parts) >= fields {
			f(parts)
		}
	}
	return nil
}

// number parses an account's number. It returns -1, which belongs to nobody, if
// the text is no number.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// ids returns the present numbers of an owner on the host.
func (h *Host) ids(o plan.Owner) (uid, gid int, err error) {
	users, groups, err := h.accounts()
	if err != nil {
		return 0, 0, err
	}
	user, known := users[o.User.Name]
	switch {
	case o.User.ID != nil:
		uid = *o.User.ID
	case known:
		uid = user.UID
	case o.User.Name != "":
		return 0, 0, errors.New("this host has no user " + strconv.Quote(o.User.Name))
	}
	group, known := groups[o.Group.Name]
	switch {
	case o.OwnGroup:
		gid = user.GID
	case o.Group.ID != nil:
		gid = *o.Group.ID
	case known:
		gid = group
	case o.Group.Name != "":
		return 0, 0, errors.New("this host has no group " + strconv.Quote(o.Group.Name))
	}
	return uid, gid, nil
}
