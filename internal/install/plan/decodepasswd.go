package plan

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// accountName matches the names that useradd accepts and that are no options.
var accountName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

func (d *decoder) groups(list []types.PasswdGroup) {
	for i, g := range list {
		field := fmt.Sprintf("passwd.groups.%d", i)
		d.account(field+".name", g.Name)
		if value(g.PasswordHash) != "" {
			d.fault(field+".passwordHash", "groups with a password are not supported")
		}
		d.out.Groups = append(d.out.Groups, Group{
			Field: field, Name: g.Name, GID: g.Gid, System: value(g.System), Absent: g.ShouldExist != nil && !*g.ShouldExist,
		})
	}
}

func (d *decoder) users(list []types.PasswdUser) {
	for i, u := range list {
		field := fmt.Sprintf("passwd.users.%d", i)
		d.account(field+".name", u.Name)
		user := User{
			Field: field, Name: u.Name, UID: u.UID,
			Gecos: value(u.Gecos), Home: value(u.HomeDir), Shell: value(u.Shell),
			PrimaryGroup: value(u.PrimaryGroup), PasswordHash: value(u.PasswordHash),
			NoCreateHome: value(u.NoCreateHome), NoUserGroup: value(u.NoUserGroup), System: value(u.System),
			Absent: u.ShouldExist != nil && !*u.ShouldExist,
		}
		for j, g := range u.Groups {
			d.account(fmt.Sprintf("%s.groups.%d", field, j), string(g))
			user.Groups = append(user.Groups, string(g))
		}
		for j, key := range u.SSHAuthorizedKeys {
			user.Keys = append(user.Keys, d.key(fmt.Sprintf("%s.sshAuthorizedKeys.%d", field, j), string(key)))
		}
		d.passwdFields(user)
		d.out.Users = append(d.out.Users, user)
	}
}

// passwdFields refuses values that would break a line of /etc/passwd.
func (d *decoder) passwdFields(u User) {
	fields := map[string]string{"gecos": u.Gecos, "homeDir": u.Home, "shell": u.Shell, "passwordHash": u.PasswordHash}
	for _, name := range []string{"gecos", "homeDir", "shell", "passwordHash"} {
		if strings.ContainsAny(fields[name], ":\n\x00") {
			d.fault(u.Field+"."+name, "holds a colon or a line break")
		}
	}
	for _, name := range []string{"homeDir", "shell"} {
		if p := fields[name]; p != "" && (!path.IsAbs(p) || path.Clean(p) != p) {
			d.fault(u.Field+"."+name, "%q is not a clean absolute path", p)
		}
	}
	if u.PrimaryGroup != "" {
		d.account(u.Field+".primaryGroup", u.PrimaryGroup)
	}
}

func (d *decoder) account(field, name string) {
	if !accountName.MatchString(name) {
		d.fault(field, "%q is not a name: small letters, digits, _ and -, 32 at most", name)
	}
}

func (d *decoder) key(field, key string) string {
	key = strings.TrimSpace(key)
	if key == "" || strings.ContainsAny(key, "\n\r\x00") {
		d.fault(field, "not one line of authorized_keys")
	}
	return key
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
