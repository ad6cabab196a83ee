package host

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// Notify tells systemd of this service's state, "READY=1" say (sd_notify(3)).
// Where nobody wants to know it does nothing.
func Notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// WatchdogInterval is how often systemd wants "WATCHDOG=1", half of what it
// waits for; false where it does not watch.
func WatchdogInterval() (time.Duration, bool) {
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros <= 0 {
		return 0, false
	}
	return time.Duration(micros) * time.Microsecond / 2, true
}
