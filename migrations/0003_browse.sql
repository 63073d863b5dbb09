-- People browse the threads of all personas by their last activity.
CREATE INDEX threads_by_time ON threads (updated_at);
