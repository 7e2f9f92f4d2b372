package fencepost;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;

/** Emits the next numbers of its source partitions by turns, from their stored offsets on. */
public final class NumberedTask extends SourceTask {
    private static final long LONGEST_WAIT_MS = 200; // a worker may wait for the end of poll() before it calls stop()
    private static final int RUN = 5; // consecutive numbers in one partition of the topic

    static final String DROPPED = "fencepost.dropped"; // a header

    private final CountDownLatch stopped = new CountDownLatch(1);
    private final List<Numbers> sources = new ArrayList<>();
    private Settings settings;
    private int task;
    private String session;
    private Transactions transactions; // null: the boundaries are the worker's
    private int turn;
    private long emitted; // in this session
    private long batches;
    private long dropped; // batches of records that a transform drops
    private long dueNs;

    @Override
    public String version() {
        return NumberedSource.VERSION;
    }

    @Override
    public void start(Map<String, String> properties) {
        settings = new Settings(Settings.A_TASK, properties);
        task = settings.getInt(Settings.TASK);
        session = String.format("%08x", new SecureRandom().nextInt());
        TransactionContext boundaries = context.transactionContext();
        transactions = boundaries == null ? null : new Transactions(boundaries, settings);
        readOffsets(settings.getInt(Settings.TASKS));
        schedule();
    }

    private void readOffsets(int tasks) {
        List<Map<String, String>> partitions = new ArrayList<>();
        for (int source = task; source < settings.sources; source += tasks) {
            partitions.add(Numbers.partition(source));
        }
        Map<Map<String, String>, Map<String, Object>> stored = context.offsetStorageReader().offsets(partitions);
        for (Map<String, String> partition : partitions) {
            sources.add(new Numbers(Numbers.of(partition), stored.get(partition), settings));
        }
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        if (!due()) {
            return null;
        }
        schedule();
        List<SourceRecord> batch = new ArrayList<>();
        if (transactions != null && transactions.abortEmpty()) {
            return batch; // a worker looks at what a task requested after every list, also after an empty one
        }
        if (settings.dropEvery > 0 && batches++ % (settings.dropEvery + 1) == settings.dropEvery) {
            return droppedBatch();
        }
        boolean ended = false;
        while (!ended && batch.size() < settings.recordsPerPoll) {
            List<SourceRecord> records = records(sources.get(turn));
            turn = (turn + 1) % sources.size();
            batch.addAll(records);
            SourceRecord last = records.get(records.size() - 1);
            ended = transactions != null && (transactions.full() ? end(last) : transactions.aborts());
        }
        return batch;
    }

    /**
     * Records that a transform is to drop, and that have no numbers of their own: their offset is that of the last record of the
     * source that is surely committed with them, or was before. None for a source without one.
     */
    private List<SourceRecord> droppedBatch() {
        List<SourceRecord> batch = new ArrayList<>();
        for (Numbers source : sources) {
            long last = transactions == null ? source.last() : source.before();
            if (last >= 0) {
                String value = value(source, last, "drop", "", -1);
                SourceRecord record = new SourceRecord(source.partition, Map.of(Numbers.NUMBER, last), settings.topic, 0,
                        Schema.STRING_SCHEMA, Integer.toString(source.source), Schema.STRING_SCHEMA, value);
                record.headers().addBoolean(DROPPED, true);
                batch.add(record);
            }
        }
        dropped += batch.isEmpty() ? 0 : 1;
        return batch;
    }

    /** A worker that keeps KIP-618 calls this when the record is committed. What is aborted comes again with the same number. */
    @Override
    public void commitRecord(SourceRecord record, RecordMetadata metadata) {
        if (record instanceof NumberedRecord && !((NumberedRecord) record).aborted) {
            ((NumberedRecord) record).source.tell(((NumberedRecord) record).number);
        }
    }

    @Override
    public void stop() {
        stopped.countDown();
    }

    private void schedule() {
        dueNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(settings.pollIntervalMs);
    }

    private boolean due() throws InterruptedException {
        long waitNs = dueNs - System.nanoTime();
        long boundedNs = Math.min(waitNs, TimeUnit.MILLISECONDS.toNanos(LONGEST_WAIT_MS));
        return !stopped.await(boundedNs, TimeUnit.NANOSECONDS) && boundedNs == waitNs;
    }

    /**
     * The records of the next number of a source, all in one batch, so that its offset is committed with all of them.
     *
     * A worker commits the offsets of an aborted transaction too. These therefore name the last record before it, so that its
     * numbers are emitted again after a restart as well.
     */
    private List<SourceRecord> records(Numbers source) {
        boolean aborted = transactions != null && transactions.aborted();
        long number = source.take();
        long offset = (aborted ? source.before() : number) + settings.offsetAhead;
        int count = 1 + (int) (number % settings.recordsPerNumber);
        boolean forgets = settings.forgetEvery > 0 && number % settings.forgetEvery == settings.forgetEvery - 1;
        List<SourceRecord> records = new ArrayList<>();
        for (int place = 0; place < (forgets && count > 1 ? count - 1 : count); place++) {
            int partition = (int) ((source.source + number / RUN + place) % settings.partitions);
            String within = settings.recordsPerNumber > 1 ? ",\"place\":" + place + ",\"of\":" + count : "";
            String value = value(source, number, aborted ? "abort" : "commit", within, dropped);
            records.add(new NumberedRecord(source, number, aborted, stored(offset), settings.topic, partition, value));
        }
        return records;
    }

    /** An offset as Connect allows it: a primitive value. A list is none. */
    private Object stored(long offset) {
        boolean invalid = settings.offsetInvalidAfter > 0 && emitted++ >= settings.offsetInvalidAfter;
        return invalid ? List.of(offset) : (Object) offset;
    }

    private String value(Numbers source, long number, String fate, String more, long dropped) {
        String batches = settings.dropEvery > 0 ? ",\"dropped\":" + dropped : "";
        return "{\"source\":\"" + source.source + "\",\"number\":" + number + ",\"task\":" + task + ",\"session\":\"" + session
                + "\",\"fate\":\"" + fate + "\",\"told\":" + source.told() + batches + more + "}";
    }

    private boolean end(SourceRecord last) {
        sources.forEach(transactions.aborted() ? Numbers::abort : Numbers::commit);
        return transactions.end(last);
    }
}
