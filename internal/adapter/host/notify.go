package host

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// Notify tells systemd the state of this service, for example "READY=1"
// (sd_notify(3)). It does nothing if systemd does not listen.
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

// WatchdogInterval returns the interval at which to send "WATCHDOG=1", half of
// what systemd waits for; false if systemd does not watch this process.
func WatchdogInterval() (time.Duration, bool) {
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros <= 0 {
		return 0, false
	}
	return time.Duration(micros) * time.Microsecond / 2, true
}
