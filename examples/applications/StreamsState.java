// Kafka Streams with a state, in a RocksDB store under exactly_once_v2. streams.py runs it: `streams.py count`, `streams.py join`.
//
// count: the store `counts` has how many inputs of each key there were. An output is {"count": N}, with the headers of its input.
// join: the store `latest` has the last input of each key. Each input is joined with the one before it, and the pair is written
// twice: once under the name of each of the two. The first input of a key has nobody before it, and is written once.
//
// Asked by fencepost, an instance writes what its stores hold (docs/your-application.md, "The state itself").

import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.LagInfo;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.apache.kafka.streams.state.Stores;
import org.rocksdb.Options;

public class StreamsState {
  private static final String HEADER = "fencepost-input";

  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> environment = System.getenv();
    boolean joins = arguments.length > 0 && arguments[0].equals("join");
    String name = joins ? "latest" : "counts";
    ProcessorSupplier<String, String, String, String> program = joins ? () -> new Join(name) : () -> new Count(name);
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), Serdes.String(), Serdes.String()));
    builder
        .stream(environment.get("FENCEPOST_INPUT"), Consumed.with(Serdes.String(), Serdes.String()))
        .process(program, name)
        .to(environment.get("FENCEPOST_OUTPUT"), Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings(environment));
    CountDownLatch failed = new CountDownLatch(1);
    streams.setStateListener(
        (now, before) -> {
          if (now == KafkaStreams.State.ERROR) {
            failed.countDown();
          }
        });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
    Thread dumps = new Thread(new Dumps(streams, name, Path.of(environment.get("FENCEPOST_DIRECTORY"))));
    dumps.setDaemon(true);
    dumps.start();
    failed.await();
    System.exit(1);
  }

  /** A processor with one store. What is kept of a key is followed by 8 kB, so that RocksDB has something to write to disk. */
  abstract static class Stateful implements Processor<String, String, String, String> {
    private static final String PADDING = "x".repeat(8000);
    private final String name;
    private KeyValueStore<String, String> store;
    protected ProcessorContext<String, String> context;

    Stateful(String name) {
      this.name = name;
    }

    @Override
    public void init(ProcessorContext<String, String> context) {
      this.context = context;
      this.store = context.getStateStore(name);
    }

    /** What is kept of a key; null: nothing. */
    protected String kept(String key) {
      String kept = store.get(key);
      return kept == null ? null : kept.substring(0, kept.indexOf(' '));
    }

    protected void keep(String key, String text) {
      store.put(key, text + " " + PADDING);
    }
  }

  /** Counts the inputs of each key. */
  static class Count extends Stateful {
    Count(String name) {
      super(name);
    }

    @Override
    public void process(Record<String, String> input) {
      String kept = kept(input.key());
      long count = 1 + (kept == null ? 0 : Long.parseLong(kept));
      keep(input.key(), Long.toString(count));
      context.forward(input.withValue("{\"count\": " + count + "}"));
    }
  }

  /** Joins each input with the one before it. */
  static class Join extends Stateful {
    Join(String name) {
      super(name);
    }

    @Override
    public void process(Record<String, String> input) {
      String mine = new String(input.headers().lastHeader(HEADER).value());
      String before = kept(input.key());
      keep(input.key(), mine);
      String pair = "{\"input\": \"" + mine + "\", \"before\": \"" + (before == null ? "" : before) + "\"}";
      context.forward(input.withValue(pair));
      if (before != null) {
        Headers headers = new RecordHeaders().add(HEADER, before.getBytes());
        context.forward(input.withValue(pair).withHeaders(headers));
      }
    }
  }

  /**
   * Answers requests for what the stores hold: the file `dump` in the instance's directory has the name of the file to be written.
   * Of each local copy of a partition of the store: a line about it, then a line for each key.
   */
  static class Dumps implements Runnable {
    private final KafkaStreams streams;
    private final String store;
    private final Path directory;

    Dumps(KafkaStreams streams, String store, Path directory) {
      this.streams = streams;
      this.store = store;
      this.directory = directory;
    }

    @Override
    public void run() {
      Path request = directory.resolve("dump");
      while (true) {
        try {
          Thread.sleep(100);
          if (streams.state() == KafkaStreams.State.RUNNING && Files.exists(request)) {
            Path answer = directory.resolve(Files.readString(request).strip());
            Path part = directory.resolve(answer.getFileName() + ".part");
            try (BufferedWriter file = Files.newBufferedWriter(part)) {
              write(file);
            }
            Files.delete(request);
            Files.move(part, answer, StandardCopyOption.ATOMIC_MOVE);
          }
        } catch (InterruptedException end) {
          return;
        } catch (Exception problem) { // such as a rebalance in the midst of it: tried again
          System.err.println("no dump: " + problem);
        }
      }
    }

    private void write(BufferedWriter file) throws IOException {
      Set<Integer> active = new HashSet<>();
      streams.metadataForLocalThreads().stream()
          .flatMap(thread -> thread.activeTasks().stream())
          .forEach(task -> active.add(task.taskId().partition()));
      Map<Integer, LagInfo> before = positions();
      for (int partition : before.keySet()) {
        StringBuilder rows = new StringBuilder();
        var query = StoreQueryParameters.fromNameAndType(store, QueryableStoreTypes.<String, String>keyValueStore());
        try (KeyValueIterator<String, String> all =
            streams.store(query.withPartition(partition).enableStaleStores()).all()) {
          while (all.hasNext()) {
            KeyValue<String, String> row = all.next();
            rows.append(line(partition, "\"key\": " + quoted(row.key) + ", \"value\": " + quoted(row.value)));
          }
        }
        long position = before.get(partition).currentOffsetPosition();
        LagInfo after = positions().get(partition);
        boolean still = after != null && after.currentOffsetPosition() == position;
        String role = active.contains(partition) ? "active" : "standby";
        file.write(line(partition, "\"role\": \"" + role + "\", \"position\": " + (still ? position : -1)));
        file.write(rows.toString());
      }
    }

    private Map<Integer, LagInfo> positions() {
      return streams.allLocalStorePartitionLags().getOrDefault(store, Map.of());
    }

    private String line(int partition, String rest) {
      return "{\"store\": " + quoted(store) + ", \"partition\": " + partition + ", " + rest + "}\n";
    }

    private static String quoted(String text) {
      return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
  }

  /** Memory tables of 64 KiB: they are written to disk between two commits, as those of a busy program are. */
  public static class SmallMemory implements RocksDBConfigSetter {
    @Override
    public void setConfig(String store, Options options, Map<String, Object> settings) {
      options.setWriteBufferSize(64 << 10);
    }

    @Override
    public void close(String store, Options options) {}
  }

  private static Properties settings(Map<String, String> environment) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, environment.get("FENCEPOST_GROUP"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, environment.get("FENCEPOST_BOOTSTRAP"));
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, environment.getOrDefault("GUARANTEE", StreamsConfig.EXACTLY_ONCE_V2));
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 2000);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, environment.getOrDefault("STANDBYS", "0"));
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, environment.get("FENCEPOST_DIRECTORY"));
    settings.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, SmallMemory.class);
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1500);
    settings.put(
        StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), environment.get("FENCEPOST_TRANSACTIONAL_ID"));
    return settings;
  }
}
