package haproxy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
)

// columns are the columns that are read from haproxy's table of servers. Others
// may come and go with its versions.
var columns = []string{"svname", "status", "check_status", "scur", "lastchg"}

// parseServers reads haproxy's table of the servers of one backend.
func parseServers(text string) ([]apilb.Server, error) {
	table, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# "))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("haproxy's table of servers: %w", err)
	}
	if len(table) == 0 {
		return nil, errors.New("haproxy's table of servers is empty")
	}
	at := map[string]int{}
	for _, name := range columns {
		i := slices.Index(table[0], name)
		if i < 0 {
			return nil, fmt.Errorf("haproxy's table of servers has no column %q", name)
		}
		at[name] = i
	}
	out := []apilb.Server{}
	for _, row := range table[1:] {
		s, err := parseServer(func(column string) string { return row[at[column]] })
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func parseServer(field func(string) string) (apilb.Server, error) {
	sessions, err := strconv.Atoi(field("scur"))
	if err != nil {
		return apilb.Server{}, fmt.Errorf("sessions of haproxy's server %s: %w", field("svname"), err)
	}
	seconds, err := strconv.Atoi(field("lastchg"))
	if err != nil {
		return apilb.Server{}, fmt.Errorf("last change of haproxy's server %s: %w", field("svname"), err)
	}
	out := apilb.Server{Name: field("svname"), Sessions: sessions, Since: time.Duration(seconds) * time.Second}
	// While a check is running, the outcome of the last one has a star before
	// it. A server on its way up or down has its progress after its state.
	check := strings.TrimPrefix(field("check_status"), "* ")
	status, _, _ := strings.Cut(field("status"), " ")
	out.Admin, out.Health = admin(status), health(status, check)
	return out, nil
}

func admin(status string) apilb.Admin {
	switch status {
	case "DRAIN":
		return apilb.AdminDrain
	case "MAINT":
		return apilb.AdminMaintenance
	default:
		return apilb.AdminReady
	}
}

// health derives the health of a server from its state and its last check. A
// failure on layer 4 means that nobody took the connection, not even the kernel
// of a busy host; failures on the other layers come from a process. SOCKERR is
// a problem of haproxy itself, which could not make a socket, for lack of a
// descriptor or a source port: to cut all clients then would make all of them
// come back at once.
func health(status, check string) apilb.Health {
	switch {
	case status == "MAINT":
		return apilb.HealthDead
	case check == "INI" || check == "UNK" || check == "":
		return apilb.HealthUnchecked
	case status == "UP" || status == "DRAIN":
		return apilb.HealthReady
	case status == "NOLB", strings.HasPrefix(check, "L7OK"): // the second one is on its way up
		return apilb.HealthUnready
	case check == "SOCKERR":
		return apilb.HealthUnasked
	case strings.HasPrefix(check, "L4") || check == "HANA":
		return apilb.HealthDead
	case strings.HasSuffix(check, "TOUT"):
		return apilb.HealthHung
	default:
		return apilb.HealthBroken
	}
}
